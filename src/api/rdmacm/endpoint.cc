// rdma_create_ep(3), rdma_get_request(3), rdma_destroy_ep(3): identifiers whose calls each do a step to its end.
#include "api/rdmacm/events.h"
#include "api/rdmacm/identifiers.h"
#include "api/rdmacm/queue_pairs.h"
#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

constexpr int kResolveTimeoutMs = 2000;

void destroy_endpoint(IdObject& id) {
  destroy_queue_pair(id);
  destroy_shared_receive_queue(id);
  [[maybe_unused]] const Status destroyed = destroy_id(id);
}

Status make_passive(IdObject& id, const rdma_addrinfo& info, ibv_pd* pd, const ibv_qp_init_attr* attributes) {
  if (const Status bound = bind_address(id, info.ai_src_addr); !bound.ok()) return bound;
  if (!attributes) return Status::success();
  id.request_attributes = *attributes;
  id.request_attributes->qp_type = id.base.qp_type;
  if (pd) id.base.pd = pd;
  return Status::success();
}

Status make_active(IdObject& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  const Status found = resolve_address(id, info.ai_src_addr, info.ai_dst_addr, kResolveTimeoutMs);
  if (!found.ok()) return found;
  if (const Status led = resolve_route(id); !led.ok() || !attributes) return led;
  attributes->qp_type = id.base.qp_type;
  return create_queue_pair(id, pd, *attributes);
}

Status create_endpoint(rdma_cm_id** to, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  std::optional<ibv_qp_type> type;
  if (info.ai_qp_type != 0) type = static_cast<ibv_qp_type>(info.ai_qp_type);
  const Result<IdObject*> created = create_id(nullptr, nullptr, static_cast<rdma_port_space>(info.ai_port_space), type);
  if (!created.ok()) return created.status();
  IdObject& id = *created.value();
  const Status made =
      info.ai_flags & RAI_PASSIVE ? make_passive(id, info, pd, attributes) : make_active(id, info, pd, attributes);
  if (made.ok())
    *to = &id.base;
  else
    destroy_endpoint(id);
  return made;
}

// The event stays the new identifier's, for what the request says.
Status take_request(IdObject& listener, EventObject& event, rdma_cm_id** to) {
  if (event.base.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    acknowledge(event);
    return {EINVAL};
  }
  IdObject& id = object_of(event.base.id);
  if (listener.request_attributes) {
    ibv_qp_init_attr attributes = *listener.request_attributes;
    if (const Status made = create_queue_pair(id, listener.base.pd, attributes); !made.ok()) {
      acknowledge(event);
      destroy_endpoint(id);
      return made;
    }
  }
  id.base.event = &event.base;
  *to = &id.base;
  return Status::success();
}

}  // namespace

VERBATIM_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return answer([&]() -> Status {
    if (!id || !info) return {EINVAL};
    return create_endpoint(id, *info, pd, attributes);
  });
}

VERBATIM_EXPORT void rdma_destroy_ep(rdma_cm_id* id) { destroy_endpoint(object_of(id)); }

VERBATIM_EXPORT int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
  return answer([&]() -> Status {
    IdObject& listener = object_of(listen);
    if (!id || !listener.is_synchronous()) return {EINVAL};
    acknowledge_last(listener);
    const Result<EventObject*> event = next_event(*listener.own_channel);
    return event.ok() ? take_request(listener, *event.value(), id) : event.status();
  });
}
