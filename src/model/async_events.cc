#include "model/async_events.h"

#include <algorithm>

namespace verbatim::model {

void AsyncEvents::raise(const AsyncEvent& event) {
  std::lock_guard lock(mutex_);
  queue_.push_back(event);
  counter_.add();
}

Result<AsyncEvent> AsyncEvents::next() {
  std::lock_guard lock(mutex_);
  if (queue_.empty()) return Status{EAGAIN};
  const AsyncEvent event = queue_.front();
  queue_.pop_front();
  if (event.account) ++event.account->taken;
  return event;
}

void AsyncEvents::acknowledge(EventAcknowledgement* account) {
  std::lock_guard lock(mutex_);
  ++account->acknowledged;
  acknowledged_.notify_all();
}

void AsyncEvents::retire(EventAcknowledgement& account) {
  std::unique_lock lock(mutex_);
  const size_t forgotten = std::erase_if(queue_, [&](const AsyncEvent& event) { return event.account == &account; });
  for (size_t i = 0; i < forgotten; ++i) counter_.take_back();
  acknowledged_.wait(lock, [&] { return account.taken == account.acknowledged; });
}

}  // namespace verbatim::model
