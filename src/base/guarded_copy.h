// Copying to and from memory that may vanish: a mapping of a peer's file that the peer truncates, a page it protects.
// The copy itself is assembly with a fix-up address, so that a fault inside it is a return value and not the end of the
// program, and so that the order of its stores is known.
#pragma once

#include <cstddef>
#include <cstdint>

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

namespace guarded_copy_internal {

struct Outcome {
  uint64_t faulted;
  const void* address;
};

extern "C" [[gnu::visibility("hidden")]] Outcome verbatim_guarded_copy(void* to, const void* from, size_t length);

// Whether this thread has been seen to take SIGSEGV and SIGBUS.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local bool thread_takes_faults;

// A thread that blocks these signals cannot be rescued: Linux kills the process of a thread that faults while it blocks
// the signal. Programs that block everything in their threads do not mean this, so both are unblocked, once a thread;
// one that blocks them again later takes the guard away from itself.
void take_faults_in_this_thread();

}  // namespace guarded_copy_internal

inline bool guarded_copy(void* to, const void* from, size_t length, CopyFault* fault) {
  using namespace guarded_copy_internal;
  if (!thread_takes_faults) [[unlikely]]
    take_faults_in_this_thread();
  const Outcome outcome = verbatim_guarded_copy(to, from, length);
  if (outcome.faulted) [[unlikely]] {
    fault->address = outcome.address;
    return false;
  }
  return true;
}

}  // namespace verbatim
