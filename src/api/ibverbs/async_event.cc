// Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3).
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

// Whose acknowledgements the event counts among; null for those of a port, which nobody waits for.
model::EventAcknowledgement* account_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &object_of(event.element.cq).impl->acknowledgement();
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return &object_of(event.element.qp).impl->acknowledgement();
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &object_of(event.element.srq).impl->acknowledgement();
    default:
      return nullptr;
  }
}

model::AsyncEvents& events_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return object_of(event.element.cq->context).events;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return object_of(event.element.srq->context).events;
    default:
      return object_of(event.element.qp->context).events;
  }
}

// As programs see it in the object.
void count_acknowledged(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: {
      const HeldMutex held(event.element.cq->mutex);
      ++event.element.cq->async_events_completed;
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      const HeldMutex held(event.element.srq->mutex);
      ++event.element.srq->events_completed;
      break;
    }
    default: {
      const HeldMutex held(event.element.qp->mutex);
      ++event.element.qp->events_completed;
    }
  }
}

}  // namespace

extern "C" {

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  for (;;) {
    // The program's descriptor, with the flags it has set on it.
    if (const Status status = EventCounter::take(context->async_fd); !status.ok()) {
      errno = status.error;
      return -1;
    }
    const Result<model::AsyncEvent> next = object_of(context).events.next();
    // Gone with its object since the descriptor counted it.
    if (!next.ok()) continue;
    event->event_type = static_cast<ibv_event_type>(next.value().type);
    if (next.value().account)
      event->element.qp = static_cast<ibv_qp*>(next.value().element);
    else
      event->element.port_num = next.value().port;
    return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  model::EventAcknowledgement* const account = account_of(*event);
  if (!account) return;
  count_acknowledged(*event);
  // Last: who waits for it to destroy the object frees it.
  events_of(*event).acknowledge(account);
}

}  // extern "C"
