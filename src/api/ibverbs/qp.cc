// Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3).
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

model::QueuePairCapabilities from_c(const ibv_qp_cap& cap) {
  return {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data};
}

ibv_qp_cap to_c(const model::QueuePairCapabilities& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline_data};
}

Gid from_c(const ibv_gid& gid) {
  Gid result;
  std::memcpy(result.bytes.data(), gid.raw, sizeof gid.raw);
  return result;
}

model::AddressVector from_c(const ibv_ah_attr& address) {
  return {.is_global = address.is_global != 0,
          .dgid = from_c(address.grh.dgid),
          .flow_label = address.grh.flow_label,
          .sgid_index = address.grh.sgid_index,
          .hop_limit = address.grh.hop_limit,
          .traffic_class = address.grh.traffic_class,
          .dlid = address.dlid,
          .service_level = address.sl,
          .source_path_bits = address.src_path_bits,
          .static_rate = address.static_rate,
          .port = address.port_num};
}

ibv_ah_attr to_c(const model::AddressVector& address) {
  ibv_ah_attr result{};
  std::memcpy(result.grh.dgid.raw, address.dgid.bytes.data(), sizeof result.grh.dgid.raw);
  result.grh.flow_label = address.flow_label;
  result.grh.sgid_index = address.sgid_index;
  result.grh.hop_limit = address.hop_limit;
  result.grh.traffic_class = address.traffic_class;
  result.dlid = address.dlid;
  result.sl = address.service_level;
  result.src_path_bits = address.source_path_bits;
  result.static_rate = address.static_rate;
  result.is_global = address.is_global;
  result.port_num = address.port;
  return result;
}

model::QueuePairAttributes from_c(const ibv_qp_attr& attr) {
  return {.state = static_cast<QueuePairState>(attr.qp_state),
          .current_state = static_cast<QueuePairState>(attr.cur_qp_state),
          .path_mtu = static_cast<model::PathMtu>(attr.path_mtu),
          .path_migration = static_cast<uint8_t>(attr.path_mig_state),
          .qkey = attr.qkey,
          .receive_psn = attr.rq_psn,
          .send_psn = attr.sq_psn,
          .destination = {attr.dest_qp_num},
          .access = attr.qp_access_flags,
          .address = from_c(attr.ah_attr),
          .pkey_index = attr.pkey_index,
          .initiator_depth = attr.max_rd_atomic,
          .responder_depth = attr.max_dest_rd_atomic,
          .min_rnr_timer = attr.min_rnr_timer,
          .port = attr.port_num,
          .timeout = attr.timeout,
          .retry_count = attr.retry_cnt,
          .rnr_retry = attr.rnr_retry,
          .notify_drained = attr.en_sqd_async_notify != 0};
}

ibv_qp_attr to_c(const model::QueuePairAttributes& attributes, const model::QueuePairCapabilities& capabilities) {
  ibv_qp_attr result{};
  result.qp_state = static_cast<ibv_qp_state>(attributes.state);
  result.cur_qp_state = static_cast<ibv_qp_state>(attributes.current_state);
  result.path_mtu = static_cast<ibv_mtu>(attributes.path_mtu);
  result.path_mig_state = static_cast<ibv_mig_state>(attributes.path_migration);
  result.qkey = attributes.qkey;
  result.rq_psn = attributes.receive_psn;
  result.sq_psn = attributes.send_psn;
  result.dest_qp_num = attributes.destination.value;
  result.qp_access_flags = attributes.access;
  result.cap = to_c(capabilities);
  result.ah_attr = to_c(attributes.address);
  result.pkey_index = attributes.pkey_index;
  result.max_rd_atomic = attributes.initiator_depth;
  result.max_dest_rd_atomic = attributes.responder_depth;
  result.min_rnr_timer = attributes.min_rnr_timer;
  result.port_num = attributes.port;
  result.timeout = attributes.timeout;
  result.retry_cnt = attributes.retry_count;
  result.rnr_retry = attributes.rnr_retry;
  return result;
}

// EINVAL for what no device could make, EOPNOTSUPP for a type that this one does not have.
int check_type(const ibv_qp_init_attr& init) {
  switch (init.qp_type) {
    case IBV_QPT_RC:
      return init.srq ? EOPNOTSUPP : 0;
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
    case IBV_QPT_DRIVER:
      return EOPNOTSUPP;
  }
  return EINVAL;
}

}  // namespace

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  ContextObject& owner = object_of(pd->context);
  if (!init->send_cq || !init->recv_cq) return fail(EINVAL);
  if (const int error = check_type(*init)) return fail(error);
  auto object = std::make_unique<QpObject>();
  Result<std::unique_ptr<model::QueuePair>> created =
      model::QueuePair::create(owner.device, owner.events,
                               {.type = QueuePairType::rc,
                                .pd = *object_of(pd).impl,
                                .send_cq = *object_of(init->send_cq).impl,
                                .receive_cq = *object_of(init->recv_cq).impl,
                                .capabilities = from_c(init->cap),
                                .signal_all = init->sq_sig_all != 0,
                                .handle = &object->base});
  if (!created.ok()) return fail(created.error());
  object->impl = created.take();
  init->cap = to_c(object->impl->capabilities());
  ibv_qp& base = object->base.qp_base;
  base.context = pd->context;
  base.qp_context = init->qp_context;
  base.pd = pd;
  base.send_cq = init->send_cq;
  base.recv_cq = init->recv_cq;
  base.handle = base.qp_num = object->impl->qpn().value;
  base.state = IBV_QPS_RESET;
  base.qp_type = init->qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  return &owner.qps.add(std::move(object))->base.qp_base;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  model::QueuePair& impl = *object_of(qp).impl;
  if (const Status status = impl.modify(from_c(*attr), static_cast<uint32_t>(attr_mask)); !status.ok())
    return status.error;
  if (attr_mask & IBV_QP_STATE) qp->state = attr->qp_state;
  return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, [[maybe_unused]] int attr_mask, ibv_qp_init_attr* init) {
  const model::QueuePair& impl = *object_of(qp).impl;
  *attr = to_c(impl.query(), impl.capabilities());
  *init = {.qp_context = qp->qp_context,
           .send_cq = qp->send_cq,
           .recv_cq = qp->recv_cq,
           .srq = qp->srq,
           .cap = to_c(impl.capabilities()),
           .qp_type = qp->qp_type,
           .sq_sig_all = impl.signal_all()};
  qp->state = attr->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  object_of(qp->context).qps.take(&object_of(qp));
  return 0;
}

}  // extern "C"
