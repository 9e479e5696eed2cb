#include "api/ibverbs/convert_queue_pair.h"

#include "api/ibverbs/convert_attributes.h"

namespace verbatim::api {

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
  result.grh.dgid = to_c(address.dgid);
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

}  // namespace verbatim::api
