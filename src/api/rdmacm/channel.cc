// Event channels: rdma_create_event_channel(3), rdma_get_cm_event(3) and their companions.
#include "api/rdmacm/connection_manager.h"
#include "api/rdmacm/events.h"
#include "base/export.h"
#include "base/no_cancellation.h"

using namespace verbatim;
using namespace verbatim::api;

VERBATIM_EXPORT rdma_event_channel* rdma_create_event_channel() {
  rdma_event_channel* channel = nullptr;
  answer([&] {
    const Result<ConnectionManager*> manager = ConnectionManager::get();
    if (!manager.ok()) return manager.status();
    Result<std::unique_ptr<EventChannelObject>> opened = manager.value()->open_channel();
    if (opened.ok()) channel = &opened.take().release()->base;
    return opened.status();
  });
  return channel;
}

VERBATIM_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) { delete &object_of(channel); }

VERBATIM_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return answer([&]() -> Status {
    if (!channel || !event) return {EINVAL};
    const Result<EventObject*> next = next_event(object_of(channel));
    if (next.ok()) *event = &next.value()->base;
    return next.status();
  });
}

VERBATIM_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
  return answer([&]() -> Status {
    if (!event) return {EINVAL};
    acknowledge(object_of(event));
    return Status::success();
  });
}
