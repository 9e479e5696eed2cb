// rdma_connect(3), rdma_listen(3), rdma_accept(3) and their companions.
#include "api/rdmacm/connections.h"

#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

VERBATIM_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return answer([&] { return connect(object_of(id), parameters); });
}

VERBATIM_EXPORT int rdma_listen(rdma_cm_id* id, int backlog) {
  return answer([&] { return listen(object_of(id), backlog); });
}

VERBATIM_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return answer([&] { return accept(object_of(id), parameters); });
}

VERBATIM_EXPORT int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return answer(
      [&] { return reject(object_of(id), wire::RejectReason::consumer_reject, private_data, private_data_len); });
}

VERBATIM_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return answer([&] {
    return reject(object_of(id), wire::RejectReason::vendor_option_not_supported, private_data, private_data_len);
  });
}

// With a queue pair the library does it itself.
VERBATIM_EXPORT int rdma_establish(rdma_cm_id* id) {
  return answer([&]() -> Status {
    if (id->qp) return {EINVAL};
    return run(object_of(id), commands::Establish{object_of(id).handle});
  });
}

VERBATIM_EXPORT int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  return answer([&] {
    if (event != IBV_EVENT_COMM_EST) return Status{EINVAL};
    return run(object_of(id), commands::NotifyEstablished{object_of(id).handle});
  });
}

VERBATIM_EXPORT int rdma_disconnect(rdma_cm_id* id) {
  return answer([&] { return disconnect(object_of(id)); });
}

VERBATIM_EXPORT int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  return answer([&]() -> Status {
    if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask) return {EINVAL};
    object_of(id).local_ece = {.vendor_id = ece->vendor_id, .options = ece->options};
    return Status::success();
  });
}

VERBATIM_EXPORT int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  return answer([&]() -> Status {
    if (!id || id->qp || !ece) return {EINVAL};
    const cm::Ece& remote = object_of(id).remote_ece;
    *ece = {.vendor_id = remote.vendor_id, .options = remote.options, .comp_mask = 0};
    return Status::success();
  });
}
