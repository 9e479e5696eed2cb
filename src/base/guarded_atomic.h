// Atomic operations on memory that may vanish: what RDMA ATOMIC and ATOMIC WRITE do to a mapping of a peer's file. They
// are the processor's own atomics (sequentially consistent), so that they are atomic also against the program that owns
// the memory and every other process that maps it. As in a guarded copy, a fault is a return value: the same handlers
// (install_guard()) resume it.
//
// `where` is a multiple of 8. The interruptible ones are for a thread that is watched for the sequence of that name
// (interruption.h) and do nothing once it was interrupted. Unless an operation is done, the word is unchanged, and
// `*before` too. Any thread.
#pragma once

#include <cstdint>

#include "base/guarded_copy.h"

namespace verbatim {

extern "C" {
[[gnu::visibility("hidden")]] extern const rseq_cs verbatim_compare_swap_sequence;
[[gnu::visibility("hidden")]] extern const rseq_cs verbatim_fetch_add_sequence;
[[gnu::visibility("hidden")]] extern const rseq_cs verbatim_store_sequence;
}
inline const rseq_cs& kCompareSwapSequence = verbatim_compare_swap_sequence;
inline const rseq_cs& kFetchAddSequence = verbatim_fetch_add_sequence;
inline const rseq_cs& kStoreSequence = verbatim_store_sequence;

namespace guarded_atomic_internal {

struct Outcome {
  uint64_t end;    // a CopyEnd
  uint64_t value;  // what the word was, or the address of the fault
};

using Watch = const std::atomic<uint64_t>;

extern "C" {
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap,
                                                                    Watch* watch);
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_fetch_add(uint64_t* where, uint64_t add, Watch* watch);
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_store(uint64_t* where, uint64_t value, Watch* watch);
// The watches of who is not watched.
[[gnu::visibility("hidden")]] extern Watch verbatim_compare_swap_unwatched;
[[gnu::visibility("hidden")]] extern Watch verbatim_fetch_add_unwatched;
[[gnu::visibility("hidden")]] extern Watch verbatim_store_unwatched;
}

inline CopyEnd settle(const Outcome& outcome, uint64_t* before, CopyFault* fault) {
  const auto end = static_cast<CopyEnd>(outcome.end);
  if (end == CopyEnd::done) [[likely]]
    *before = outcome.value;
  else if (end == CopyEnd::fault)
    fault->address = reinterpret_cast<const void*>(outcome.value);
  return end;
}

inline CopyEnd compare_swap(uint64_t* where, uint64_t compare, uint64_t swap, uint64_t* before, CopyFault* fault,
                            Watch& watch) {
  guarded_copy_internal::prepare_thread();
  return settle(verbatim_guarded_compare_swap(where, compare, swap, &watch), before, fault);
}

inline CopyEnd fetch_add(uint64_t* where, uint64_t add, uint64_t* before, CopyFault* fault, Watch& watch) {
  guarded_copy_internal::prepare_thread();
  return settle(verbatim_guarded_fetch_add(where, add, &watch), before, fault);
}

inline CopyEnd store(uint64_t* where, uint64_t value, CopyFault* fault, Watch& watch) {
  guarded_copy_internal::prepare_thread();
  uint64_t before;
  return settle(verbatim_guarded_store(where, value, &watch), &before, fault);
}

// The thread may still be watched from an earlier operation.
template <class Operation>
bool until_over(Operation operation) {
  CopyEnd end;
  do end = operation();
  while (end == CopyEnd::interrupted);
  return end == CopyEnd::done;
}

}  // namespace guarded_atomic_internal

// If the word equals `compare` it becomes `swap`; `*before` is what it was. False, and `*fault`, if it is not there.
[[nodiscard]] inline bool guarded_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap, uint64_t* before,
                                               CopyFault* fault) {
  using namespace guarded_atomic_internal;
  return until_over([&] { return compare_swap(where, compare, swap, before, fault, verbatim_compare_swap_unwatched); });
}
[[nodiscard]] inline CopyEnd interruptible_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap,
                                                        uint64_t* before, CopyFault* fault) {
  return guarded_atomic_internal::compare_swap(where, compare, swap, before, fault, interruption_watch());
}

// The word becomes its sum with `add`, which wraps; `*before` is what it was.
[[nodiscard]] inline bool guarded_fetch_add(uint64_t* where, uint64_t add, uint64_t* before, CopyFault* fault) {
  using namespace guarded_atomic_internal;
  return until_over([&] { return fetch_add(where, add, before, fault, verbatim_fetch_add_unwatched); });
}
[[nodiscard]] inline CopyEnd interruptible_fetch_add(uint64_t* where, uint64_t add, uint64_t* before,
                                                     CopyFault* fault) {
  return guarded_atomic_internal::fetch_add(where, add, before, fault, interruption_watch());
}

[[nodiscard]] inline bool guarded_store(uint64_t* where, uint64_t value, CopyFault* fault) {
  using namespace guarded_atomic_internal;
  return until_over([&] { return store(where, value, fault, verbatim_store_unwatched); });
}
[[nodiscard]] inline CopyEnd interruptible_store(uint64_t* where, uint64_t value, CopyFault* fault) {
  return guarded_atomic_internal::store(where, value, fault, interruption_watch());
}

}  // namespace verbatim
