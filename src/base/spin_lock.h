// A lock for where two threads hardly ever meet. Taking it is one atomic instruction and giving it back a plain store,
// half of what a std::mutex costs, and less than half after a copy, for whose last bytes an atomic instruction waits.
// So nobody is told that it is free, and who waits looks again and again: at once, each time its processor has served
// others, and in the end every 50 us, since the holder may be a thread of lower priority that would never run. No
// cancellation point.
#pragma once

#include <atomic>

namespace verbatim {

class SpinLock {
 public:
  void lock() {
    if (held_.exchange(true, std::memory_order_acquire)) wait();  // pairs with unlock()
  }
  // Looks first: who finds it held does not take the word from its holder's processor.
  bool try_lock() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);  // pairs with unlock()
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // pairs with lock() and try_lock()

 private:
  void wait();

  std::atomic<bool> held_{false};
};

}  // namespace verbatim
