// Asynchronous events of one opened device (ibv_get_async_event(3)): a queue, the descriptor that says whether it is
// empty, and the count of events a caller has taken but not acknowledged. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/event_counter.h"

namespace verbatim::model {

// ibv_event_type.
enum class AsyncEventType : int {
  completion_queue_error = 0,
  queue_pair_fatal = 1,
  queue_pair_request_error = 2,
  queue_pair_access_error = 3,
  send_queue_drained = 5,
  gid_change = 18,
};

// How many events of one object were taken and not yet acknowledged. Guarded by the AsyncEvents that reports them.
struct EventAcknowledgement {
  uint32_t taken = 0;
  uint32_t acknowledged = 0;
};

struct AsyncEvent {
  AsyncEventType type{};
  // The object's C handle (ibv_qp*, ibv_cq*), or the port number where `account` is null.
  void* element = nullptr;
  int port = 0;
  EventAcknowledgement* account = nullptr;
};

class AsyncEvents {
 public:
  explicit AsyncEvents(EventCounter counter) : counter_(std::move(counter)) {}

  int fd() const { return counter_.fd(); }
  void raise(const AsyncEvent& event);
  // The oldest event, after EventCounter::take() on fd() said that there is one; EAGAIN if it was withdrawn since.
  Result<AsyncEvent> next();
  void acknowledge(EventAcknowledgement* account);
  // Before an object goes: forgets its events that nobody took, and waits until those taken are acknowledged.
  void retire(EventAcknowledgement& account);

 private:
  EventCounter counter_;
  std::mutex mutex_;  // guards what follows and all accounts
  std::condition_variable acknowledged_;
  std::deque<AsyncEvent> queue_;
};

}  // namespace verbatim::model
