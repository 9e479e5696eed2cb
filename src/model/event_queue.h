// Events that a program takes out one by one and acknowledges: the queue, the descriptor that is readable just while it
// holds something, and for each object the count of its events that were taken and not yet acknowledged. Thread-safe.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/event_counter.h"
#include "base/no_cancellation.h"

namespace verbatim::model {

// How many events of one object were taken and not yet acknowledged. Guarded by the queue that reports them.
struct EventAcknowledgement {
  uint32_t taken = 0;
  uint32_t acknowledged = 0;
};

// An Event has a member `account`, an EventAcknowledgement*; null for events that nobody waits for.
template <class Event>
class EventQueue {
 public:
  explicit EventQueue(EventCounter counter) : counter_(std::move(counter)) {}

  int fd() const { return counter_.fd(); }

  void raise(const Event& event) {
    std::lock_guard lock(mutex_);
    queue_.push_back(event);
    counter_.add();
  }

  // The oldest event, after EventCounter::take() on fd() said that there is one; EAGAIN if it was withdrawn since.
  Result<Event> next() {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return Status{EAGAIN};
    const Event event = queue_.front();
    queue_.pop_front();
    if (event.account) ++event.account->taken;
    return event;
  }

  void acknowledge(EventAcknowledgement* account, uint32_t count = 1) {
    std::lock_guard lock(mutex_);
    account->acknowledged += count;
    acknowledged_.notify_all();
  }

  // Before an object goes: forgets its events that nobody took, and waits until those taken are acknowledged. No
  // cancellation point: the object is half gone.
  void retire(EventAcknowledgement& account) {
    const NoCancellation guard;
    std::unique_lock lock(mutex_);
    const size_t forgotten = std::erase_if(queue_, [&](const Event& event) { return event.account == &account; });
    for (size_t i = 0; i < forgotten; ++i) counter_.take_back();
    acknowledged_.wait(lock, [&] { return closed_ || account.taken == account.acknowledged; });
  }

  // The program lets go of everything at once: nobody is waited for any more.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    acknowledged_.notify_all();
  }

 private:
  EventCounter counter_;
  std::mutex mutex_;  // guards what follows and all accounts
  std::condition_variable acknowledged_;
  std::deque<Event> queue_;
  bool closed_ = false;
};

}  // namespace verbatim::model
