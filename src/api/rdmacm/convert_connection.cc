#include "api/rdmacm/convert_connection.h"

#include <algorithm>
#include <span>

namespace verbatim::api {
namespace {

constexpr uint8_t kPort = 1;

template <class Parameters>
void lend(const cm::PrivateData& data, Parameters& to) {
  // No message has room for more.
  to.private_data_len = static_cast<uint8_t>(std::min<size_t>(data.size(), UINT8_MAX));
  to.private_data = data.size() > 0 ? data.bytes().data() : nullptr;
}

}  // namespace

ibv_ah_attr address_of(const cm::Path& path) {
  ibv_ah_attr address{};
  std::ranges::copy(path.destination.bytes, address.grh.dgid.raw);
  address.grh.flow_label = path.flow_label;
  address.grh.hop_limit = path.hop_limit;
  address.grh.traffic_class = path.traffic_class;
  address.is_global = 1;
  address.sl = path.service_level;
  address.static_rate = path.rate;
  address.port_num = kPort;
  return address;
}

cm::Offer from_c(const rdma_conn_param* parameters) {
  if (!parameters) return cm::Offer{};
  const size_t length = parameters->private_data ? parameters->private_data_len : 0;
  return cm::Offer{
      .parameters = {.qpn = {parameters->qp_num},
                     .srq = parameters->srq != 0,
                     .responder_resources = parameters->responder_resources,
                     .initiator_depth = parameters->initiator_depth,
                     .flow_control = parameters->flow_control != 0,
                     .retry_count = parameters->retry_count,
                     .rnr_retry_count = parameters->rnr_retry_count},
      .private_data = cm::PrivateData(std::span(static_cast<const uint8_t*>(parameters->private_data), length))};
}

rdma_conn_param to_c(const cm::ConnectParameters& parameters, const cm::PrivateData& data) {
  rdma_conn_param c{};
  lend(data, c);
  c.responder_resources = parameters.responder_resources;
  c.initiator_depth = parameters.initiator_depth;
  c.flow_control = parameters.flow_control;
  c.retry_count = parameters.retry_count;
  c.rnr_retry_count = parameters.rnr_retry_count;
  c.srq = parameters.srq;
  c.qp_num = parameters.qpn.value;
  return c;
}

rdma_ud_param to_c(const cm::DatagramTarget& target, const cm::PrivateData& data) {
  rdma_ud_param c{};
  lend(data, c);
  c.ah_attr = address_of(target.path);
  c.qp_num = target.qpn.value;
  c.qkey = target.q_key;
  return c;
}

}  // namespace verbatim::api
