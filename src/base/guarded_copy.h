// Copying to and from memory that may vanish: a mapping of a peer's file that the peer truncates, a page it protects.
// The copy itself is assembly with a fix-up address, so that a fault inside it is a return value and not the end of the
// program, and so that the order of its stores is known.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/interruption.h"
#include "base/result.h"

namespace verbatim {

// Where a guarded copy stopped: the first address that could not be touched, on either side. Null when the processor
// does not say, as for an address outside the canonical range.
struct CopyFault {
  const void* address = nullptr;
};

// Installs the SIGSEGV and SIGBUS handlers that a guarded copy or atomic (guarded_atomic.h) needs. They resume it when
// it faults and hand every other signal to whatever was installed before, with its mask, flags, stack and arguments.
// Called before the first mapping of memory that is not ours. Idempotent; any thread. Fails with the errno of
// sigaction.
//
// A program that installs a handler of its own later, and does not call the one it replaced, takes the guard away.
Status install_guard();

// What became of a copy that may be interrupted.
enum class CopyEnd { done, fault, interrupted };

// Copies `length` bytes; false, and `*fault`, when either side faulted: a part of the bytes may then have been copied.
// Without install_guard() a fault kills the program. Any thread; the ranges may be the same but not otherwise overlap.
//
// What another processor that spins on `to` may rely on:
// - 1, 2, 4 or 8 bytes to a naturally aligned address are one store;
// - no store crosses a cache line, and no byte is stored twice;
// - the first and the last cache line are stored in ascending order, the last one after everything else, its last
//   bytes last. Only what lies between may arrive in any order.
// Nothing outside the range is read or written.
[[nodiscard]] inline bool guarded_copy(void* to, const void* from, size_t length, CopyFault* fault);

// The same for a thread that is watched for kCopySequence (interruption.h): once it was interrupted nothing is stored
// any more. Then the first `*copied` bytes are in place, the others as they were, and copying these is a copy of its
// own.
[[nodiscard]] inline CopyEnd interruptible_copy(void* to, const void* from, size_t length, size_t* copied,
                                                CopyFault* fault);

extern "C" [[gnu::visibility("hidden")]] const rseq_cs verbatim_copy_sequence;
inline const rseq_cs& kCopySequence = verbatim_copy_sequence;

namespace guarded_copy_internal {

struct Outcome {
  uint64_t end;     // a CopyEnd
  uint64_t detail;  // of a fault its address, of an interruption how many bytes were not copied
};

extern "C" [[gnu::visibility("hidden")]] Outcome verbatim_guarded_copy(void* to, const void* from, size_t length,
                                                                       const std::atomic<uint64_t>* watch);

// The watch of who is not watched.
extern "C" [[gnu::visibility("hidden")]] const std::atomic<uint64_t> verbatim_copy_unwatched;

// Whether this thread has been seen to take SIGSEGV and SIGBUS.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local bool thread_takes_faults;

// A thread that blocks these signals cannot be rescued: Linux kills the process of a thread that faults while it blocks
// the signal. Programs that block everything in their threads do not mean this, so both are unblocked, once a thread;
// one that blocks them again later takes the guard away from itself.
void take_faults_in_this_thread();

inline void prepare_thread() {
  if (!thread_takes_faults) [[unlikely]]
    take_faults_in_this_thread();
}

inline CopyEnd run(void* to, const void* from, size_t length, const std::atomic<uint64_t>& watch, size_t* copied,
                   CopyFault* fault) {
  prepare_thread();
  const Outcome outcome = verbatim_guarded_copy(to, from, length, &watch);
  if (outcome.end == static_cast<uint64_t>(CopyEnd::done)) [[likely]] {
    *copied = length;
    return CopyEnd::done;
  }
  if (outcome.end == static_cast<uint64_t>(CopyEnd::fault)) {
    fault->address = reinterpret_cast<const void*>(outcome.detail);
    return CopyEnd::fault;
  }
  *copied = length - outcome.detail;
  return outcome.detail == 0 ? CopyEnd::done : CopyEnd::interrupted;
}

}  // namespace guarded_copy_internal

inline CopyEnd interruptible_copy(void* to, const void* from, size_t length, size_t* copied, CopyFault* fault) {
  return guarded_copy_internal::run(to, from, length, interruption_watch(), copied, fault);
}

inline bool guarded_copy(void* to, const void* from, size_t length, CopyFault* fault) {
  using namespace guarded_copy_internal;
  size_t copied = 0;
  // The thread may still be watched from an earlier copy.
  for (size_t done = 0;; done += copied) {
    const CopyEnd end = run(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, length - done,
                            verbatim_copy_unwatched, &copied, fault);
    if (end != CopyEnd::interrupted) return end == CopyEnd::done;
  }
}

}  // namespace verbatim
