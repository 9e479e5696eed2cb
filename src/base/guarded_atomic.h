// Atomic operations on memory that may vanish: what RDMA ATOMIC and ATOMIC WRITE do to a mapping of a peer's file. They
// are the processor's own atomics (sequentially consistent), so that they are atomic also against the program that owns
// the memory and every other process that maps it. As in a guarded copy, a fault is a return value: the same handlers
// (install_guard()) resume it.
//
// `where` is a multiple of 8. Each returns false, and `*fault`, when the word could not be touched: then it is
// unchanged and `*before` too. Any thread.
#pragma once

#include <cstdint>

#include "base/guarded_copy.h"

namespace verbatim {

// If the word equals `compare` it becomes `swap`; `*before` is what it was.
[[nodiscard]] inline bool guarded_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap, uint64_t* before,
                                               CopyFault* fault);
// The word becomes its sum with `add`, which wraps; `*before` is what it was.
[[nodiscard]] inline bool guarded_fetch_add(uint64_t* where, uint64_t add, uint64_t* before, CopyFault* fault);
[[nodiscard]] inline bool guarded_store(uint64_t* where, uint64_t value, CopyFault* fault);

namespace guarded_atomic_internal {

struct Outcome {
  uint64_t faulted;
  uint64_t value;  // what the word was, or the address of the fault
};

extern "C" {
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap);
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_fetch_add(uint64_t* where, uint64_t add);
[[gnu::visibility("hidden")]] Outcome verbatim_guarded_store(uint64_t* where, uint64_t value);
}

inline bool settle(const Outcome& outcome, uint64_t* before, CopyFault* fault) {
  if (outcome.faulted) [[unlikely]] {
    fault->address = reinterpret_cast<const void*>(outcome.value);
    return false;
  }
  *before = outcome.value;
  return true;
}

inline void prepare_thread() {
  if (!guarded_copy_internal::thread_takes_faults) [[unlikely]]
    guarded_copy_internal::take_faults_in_this_thread();
}

}  // namespace guarded_atomic_internal

inline bool guarded_compare_swap(uint64_t* where, uint64_t compare, uint64_t swap, uint64_t* before, CopyFault* fault) {
  using namespace guarded_atomic_internal;
  prepare_thread();
  return settle(verbatim_guarded_compare_swap(where, compare, swap), before, fault);
}

inline bool guarded_fetch_add(uint64_t* where, uint64_t add, uint64_t* before, CopyFault* fault) {
  using namespace guarded_atomic_internal;
  prepare_thread();
  return settle(verbatim_guarded_fetch_add(where, add), before, fault);
}

inline bool guarded_store(uint64_t* where, uint64_t value, CopyFault* fault) {
  using namespace guarded_atomic_internal;
  prepare_thread();
  uint64_t before;
  return settle(verbatim_guarded_store(where, value), &before, fault);
}

}  // namespace verbatim
