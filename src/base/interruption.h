// How a thread learns, for the price of a store, that it was interrupted: put off its processor, stopped, or made to
// run a signal handler. The kernel tells it by restartable sequences (rseq(2), Linux 4.18), which the C library
// registers from glibc 2.35 on.
//
//   watch(sequence)      from here on the thread is watched
//   ...                  checks that shall still hold when the sequence runs: loads only, no system call
//   the sequence         a guarded copy, atomic or call that is given interruption_watch(): it does nothing if the
//   thread
//                        was interrupted since watch(), and nothing more once it is
//
// So what another thread saw stopped after it had changed what the checks read never acts by the old state.
#pragma once

#include <linux/rseq.h>

#include <atomic>
#include <cstdint>

namespace verbatim {

namespace interruption_internal {

// Where the kernel looks for the sequence under way, and what it clears: the thread's own, of struct rseq.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local std::atomic<uint64_t>* watch_word;

std::atomic<uint64_t>& find_watch_word();

}  // namespace interruption_internal

// This thread's watch, for who runs a sequence. Not to be kept: it is the thread's.
inline std::atomic<uint64_t>& interruption_watch() {
  std::atomic<uint64_t>* const word = interruption_internal::watch_word;
  return word ? *word : interruption_internal::find_watch_word();
}

// Whether this thread is told at all: not so where the C library or the kernel has no restartable sequences, nor under
// some emulators. Then every sequence runs to its end.
bool notices_interruption();

// Begins to watch this thread for `sequence`, of those that guarded_copy.h, guarded_atomic.h and watched_call.h name.
inline void watch(const rseq_cs& sequence) {
  interruption_watch().store(reinterpret_cast<uint64_t>(&sequence), std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace verbatim
