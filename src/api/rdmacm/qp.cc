// rdma_create_qp(3), rdma_create_srq(3), rdma_init_qp_attr(3) and their companions.
#include "api/rdmacm/identifiers.h"
#include "api/rdmacm/queue_pairs.h"
#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

VERBATIM_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return answer([&] { return create_queue_pair(object_of(id), pd, *attributes); });
}

VERBATIM_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  return answer([&] { return create_queue_pair(object_of(id), *attributes); });
}

VERBATIM_EXPORT void rdma_destroy_qp(rdma_cm_id* id) { destroy_queue_pair(object_of(id)); }

VERBATIM_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  return answer([&] { return create_shared_receive_queue(object_of(id), *attributes); });
}

VERBATIM_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return answer([&] {
    const bool is_xrc = id->qp_type == IBV_QPT_XRC_RECV || id->qp_type == IBV_QPT_XRC_SEND;
    ibv_srq_init_attr_ex extended{.srq_context = attributes->srq_context,
                                  .attr = attributes->attr,
                                  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
                                  .srq_type = is_xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC};
    if (pd) {
      extended.pd = pd;
      extended.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    const Status created = create_shared_receive_queue(object_of(id), extended);
    attributes->attr = extended.attr;
    return created;
  });
}

VERBATIM_EXPORT void rdma_destroy_srq(rdma_cm_id* id) { destroy_shared_receive_queue(object_of(id)); }

VERBATIM_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return answer([&]() -> Status {
    if (!id || !attributes || !mask) return {EINVAL};
    if (const Status known = refresh(object_of(id)); !known.ok()) return known;
    if (!object_of(id).view.has_device) return {EINVAL};
    const Result<Transition> to = transition_to(attributes->qp_state, object_of(id));
    if (!to.ok()) return to.status();
    *attributes = to.value().attributes;
    *mask = to.value().mask;
    return Status::success();
  });
}
