// Asynchronous events of one opened device (ibv_get_async_event(3)).
#pragma once

#include "model/event_queue.h"

namespace verbatim::model {

// ibv_event_type.
enum class AsyncEventType : int {
  completion_queue_error = 0,
  queue_pair_fatal = 1,
  queue_pair_request_error = 2,
  queue_pair_access_error = 3,
  communication_established = 4,
  send_queue_drained = 5,
  shared_receive_queue_limit = 15,
  last_work_request_reached = 16,
  gid_change = 18,
};

struct AsyncEvent {
  AsyncEventType type{};
  // The object's C handle (ibv_qp*, ibv_cq*), or the port number where `account` is null.
  void* element = nullptr;
  int port = 0;
  EventAcknowledgement* account = nullptr;
};

using AsyncEvents = EventQueue<AsyncEvent>;

}  // namespace verbatim::model
