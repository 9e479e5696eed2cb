// How long a program may poll in vain before it lets another thread have its processor. The one it waits for may be
// that thread, and would else run only when the poller's time slice, of milliseconds, is over: two programs that poll
// on one processor would then exchange a few hundred messages a second.
#pragma once

#include <sched.h>

#include <atomic>

namespace verbatim::api {

// Of one CQ. Thread-safe.
class PollPatience {
 public:
  void after(bool found) {
    // Two threads that poll at once may lose a count.
    const int in_vain = found ? 0 : in_vain_.load(std::memory_order_relaxed) + 1;
    in_vain_.store(in_vain == kPolls ? 0 : in_vain, std::memory_order_relaxed);  // read by the next poll alone
    if (in_vain == kPolls) sched_yield();
  }

 private:
  // Some 50 us: longer than a short message takes between two processors.
  static constexpr int kPolls = 2048;
  std::atomic<int> in_vain_{0};
};

}  // namespace verbatim::api
