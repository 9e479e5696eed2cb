#include "api/ibverbs/convert_attributes.h"

#include <endian.h>

namespace verbatim::api {

static_assert(model::kNodeTypeChannelAdapter == static_cast<int>(IBV_NODE_CA));
static_assert(model::kTransportInfiniBand == static_cast<int>(IBV_TRANSPORT_IB));
static_assert(model::kPortActive == static_cast<int>(IBV_PORT_ACTIVE));
static_assert(model::kLinkLayerEthernet == static_cast<int>(IBV_LINK_LAYER_ETHERNET));
static_assert(model::kGrhRequired == static_cast<int>(IBV_QPF_GRH_REQUIRED));
static_assert(model::kDeviceHasSystemImageGuid == static_cast<unsigned>(IBV_DEVICE_SYS_IMAGE_GUID));
static_assert(model::kDeviceHasWindows == static_cast<unsigned>(IBV_DEVICE_MEM_WINDOW));
static_assert(model::kDeviceHasWindowsOfType2B == static_cast<unsigned>(IBV_DEVICE_MEM_WINDOW_TYPE_2B));
static_assert(model::on_demand::kSend == static_cast<unsigned>(IBV_ODP_SUPPORT_SEND));
static_assert(model::on_demand::kReceive == static_cast<unsigned>(IBV_ODP_SUPPORT_RECV));
static_assert(model::on_demand::kWrite == static_cast<unsigned>(IBV_ODP_SUPPORT_WRITE));
static_assert(model::on_demand::kRead == static_cast<unsigned>(IBV_ODP_SUPPORT_READ));
static_assert(model::on_demand::kAtomic == static_cast<unsigned>(IBV_ODP_SUPPORT_ATOMIC));
static_assert(model::on_demand::kSharedReceive == static_cast<unsigned>(IBV_ODP_SUPPORT_SRQ_RECV));
static_assert(model::kPortHasIpBasedGids == static_cast<unsigned>(IBV_PORT_IP_BASED_GIDS));
static_assert(model::kAtomicsWithProcessor == static_cast<int>(IBV_ATOMIC_GLOB));
static_assert(model::kDeviceTakesCurrentState == static_cast<unsigned>(IBV_DEVICE_CURR_QP_STATE_MOD));
static_assert(model::kDeviceSaysNotReady == static_cast<unsigned>(IBV_DEVICE_RC_RNR_NAK_GEN));
static_assert(model::kDeviceHasXrc == static_cast<unsigned>(IBV_DEVICE_XRC));
static_assert(static_cast<int>(model::PathMtu::bytes_256) == IBV_MTU_256);
static_assert(static_cast<int>(model::PathMtu::bytes_4096) == IBV_MTU_4096);

ibv_device_attr to_c(const model::DeviceAttributes& attributes) {
  ibv_device_attr c{};
  // Without its last byte, which stays the terminating zero.
  attributes.fw_ver.copy(c.fw_ver, sizeof c.fw_ver - 1);
  c.node_guid = htobe64(attributes.node_guid);
  c.sys_image_guid = htobe64(attributes.sys_image_guid);
  c.max_mr_size = attributes.max_mr_size;
  c.page_size_cap = attributes.page_size_cap;
  c.vendor_id = attributes.vendor_id;
  c.vendor_part_id = attributes.vendor_part_id;
  c.hw_ver = attributes.hw_ver;
  c.max_qp = attributes.max_qp;
  c.max_qp_wr = attributes.max_qp_wr;
  c.device_cap_flags = static_cast<uint32_t>(attributes.device_cap_flags);
  c.max_sge = attributes.max_sge;
  c.max_sge_rd = attributes.max_sge_rd;
  c.max_cq = attributes.max_cq;
  c.max_cqe = attributes.max_cqe;
  c.max_mr = attributes.max_mr;
  c.max_pd = attributes.max_pd;
  c.max_qp_rd_atom = attributes.max_qp_rd_atom;
  c.max_res_rd_atom = attributes.max_res_rd_atom;
  c.max_qp_init_rd_atom = attributes.max_qp_init_rd_atom;
  c.atomic_cap = static_cast<ibv_atomic_cap>(attributes.atomic_cap);
  c.max_mw = attributes.max_mw;
  c.max_mcast_grp = attributes.max_mcast_grp;
  c.max_mcast_qp_attach = attributes.max_mcast_qp_attach;
  c.max_total_mcast_qp_attach = attributes.max_total_mcast_qp_attach;
  c.max_ah = attributes.max_ah;
  c.max_srq = attributes.max_srq;
  c.max_srq_wr = attributes.max_srq_wr;
  c.max_srq_sge = attributes.max_srq_sge;
  c.max_pkeys = attributes.max_pkeys;
  c.local_ca_ack_delay = attributes.local_ca_ack_delay;
  c.phys_port_cnt = attributes.phys_port_cnt;
  return c;
}

ibv_device_attr_ex to_c_extended(const model::DeviceAttributes& attributes) {
  ibv_device_attr_ex c{};
  c.orig_attr = to_c(attributes);
  c.completion_timestamp_mask = attributes.completion_timestamp_mask;
  c.hca_core_clock = attributes.hca_core_clock;
  c.device_cap_flags_ex = attributes.device_cap_flags;
  c.cq_mod_caps = {attributes.max_cq_count, attributes.max_cq_period};
  c.phys_port_cnt_ex = attributes.phys_port_cnt;
  const model::OnDemandPaging& paging = attributes.on_demand_paging;
  c.odp_caps.general_caps =
      (paging.supported ? IBV_ODP_SUPPORT : 0) | (paging.whole_address_space ? IBV_ODP_SUPPORT_IMPLICIT : 0);
  c.odp_caps.per_transport_caps = {paging.rc, paging.uc, paging.ud};
  c.xrc_odp_caps = paging.xrc;
  return c;
}

ibv_port_attr to_c(const model::PortAttributes& attributes) {
  ibv_port_attr c{};
  c.state = static_cast<ibv_port_state>(attributes.state);
  c.max_mtu = static_cast<ibv_mtu>(attributes.max_mtu);
  c.active_mtu = static_cast<ibv_mtu>(attributes.active_mtu);
  c.gid_tbl_len = attributes.gid_tbl_len;
  c.port_cap_flags = attributes.port_cap_flags;
  c.max_msg_sz = attributes.max_msg_sz;
  c.pkey_tbl_len = attributes.pkey_tbl_len;
  c.lid = attributes.lid;
  c.max_vl_num = attributes.max_vl_num;
  c.active_width = attributes.rate.width;
  c.active_speed = attributes.rate.speed;
  c.phys_state = attributes.phys_state;
  c.link_layer = attributes.link_layer;
  c.flags = attributes.flags;
  return c;
}

ibv_gid to_c(const Gid& gid) {
  ibv_gid c;
  std::memcpy(c.raw, gid.bytes.data(), sizeof c.raw);
  return c;
}

Gid from_c(const ibv_gid& gid) {
  Gid result;
  std::memcpy(result.bytes.data(), gid.raw, sizeof gid.raw);
  return result;
}

ibv_gid_entry to_c(const model::GidEntry& entry, uint32_t index) {
  return {.gid = to_c(entry.gid),
          .gid_index = index,
          .port_num = model::kPort,
          .gid_type = IBV_GID_TYPE_ROCE_V2,
          .ndev_ifindex = entry.ifindex};
}

}  // namespace verbatim::api
