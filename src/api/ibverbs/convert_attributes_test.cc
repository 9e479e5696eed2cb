#include "api/ibverbs/convert_attributes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace verbatim::api {
namespace {

TEST(ConvertAttributes, GuidsAreInNetworkByteOrder) {
  model::DeviceAttributes attributes;
  attributes.node_guid = 0x0102030405060708;
  attributes.sys_image_guid = 0x1112131415161718;
  const ibv_device_attr c = to_c(attributes);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(&c.node_guid)[0], 0x01);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(&c.node_guid)[7], 0x08);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(&c.sys_image_guid)[0], 0x11);
}

TEST(ConvertAttributes, AFirmwareVersionTooLongIsCutAndStillAString) {
  model::DeviceAttributes attributes;
  attributes.fw_ver = std::string(100, 'v');
  EXPECT_EQ(std::string(to_c(attributes).fw_ver), std::string(63, 'v'));
}

TEST(ConvertAttributes, EachLimitOfTheDeviceReachesItsOwnMember) {
  model::DeviceAttributes attributes;
  int next = 1;
  for (int model::DeviceAttributes::*limit :
       {&model::DeviceAttributes::max_qp, &model::DeviceAttributes::max_qp_wr, &model::DeviceAttributes::max_sge,
        &model::DeviceAttributes::max_sge_rd, &model::DeviceAttributes::max_cq, &model::DeviceAttributes::max_cqe,
        &model::DeviceAttributes::max_mr, &model::DeviceAttributes::max_pd, &model::DeviceAttributes::max_qp_rd_atom,
        &model::DeviceAttributes::max_qp_init_rd_atom, &model::DeviceAttributes::max_res_rd_atom,
        &model::DeviceAttributes::max_mw, &model::DeviceAttributes::max_mcast_grp,
        &model::DeviceAttributes::max_mcast_qp_attach, &model::DeviceAttributes::max_total_mcast_qp_attach,
        &model::DeviceAttributes::max_ah, &model::DeviceAttributes::max_srq, &model::DeviceAttributes::max_srq_wr,
        &model::DeviceAttributes::max_srq_sge}) {
    attributes.*limit = next++;
  }
  attributes.max_pkeys = 20;
  attributes.local_ca_ack_delay = 21;
  attributes.phys_port_cnt = 22;
  const ibv_device_attr c = to_c(attributes);
  const std::array members{int{c.max_qp},
                           c.max_qp_wr,
                           c.max_sge,
                           c.max_sge_rd,
                           c.max_cq,
                           c.max_cqe,
                           c.max_mr,
                           c.max_pd,
                           c.max_qp_rd_atom,
                           c.max_qp_init_rd_atom,
                           c.max_res_rd_atom,
                           c.max_mw,
                           c.max_mcast_grp,
                           c.max_mcast_qp_attach,
                           c.max_total_mcast_qp_attach,
                           c.max_ah,
                           c.max_srq,
                           c.max_srq_wr,
                           c.max_srq_sge,
                           int{c.max_pkeys},
                           int{c.local_ca_ack_delay},
                           int{c.phys_port_cnt}};
  for (size_t i = 0; i < members.size(); ++i) EXPECT_EQ(members[i], static_cast<int>(i) + 1) << i;
}

TEST(ConvertAttributes, TheExtendedAttributesSayWhatMemoryOnDemandIsGoodFor) {
  model::DeviceAttributes attributes;
  attributes.on_demand_paging = {.supported = true, .whole_address_space = false, .rc = 1, .uc = 2, .ud = 3, .xrc = 4};
  const ibv_device_attr_ex c = to_c_extended(attributes);
  EXPECT_EQ(c.odp_caps.general_caps, uint64_t{IBV_ODP_SUPPORT});
  EXPECT_EQ(c.odp_caps.per_transport_caps.rc_odp_caps, 1u);
  EXPECT_EQ(c.odp_caps.per_transport_caps.uc_odp_caps, 2u);
  EXPECT_EQ(c.odp_caps.per_transport_caps.ud_odp_caps, 3u);
  EXPECT_EQ(c.xrc_odp_caps, 4u);
  EXPECT_EQ(to_c_extended(model::DeviceAttributes{}).odp_caps.general_caps,
            uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
}

TEST(ConvertAttributes, TheExtendedAttributesRepeatTheFlagsAndPortsAndHaveNothingThatIsNotBuilt) {
  model::DeviceAttributes attributes;
  attributes.max_cq_count = 7;
  attributes.max_cq_period = 8;
  const ibv_device_attr_ex c = to_c_extended(attributes);
  EXPECT_EQ(c.device_cap_flags_ex, attributes.device_cap_flags);
  EXPECT_EQ(c.orig_attr.device_cap_flags, static_cast<uint32_t>(attributes.device_cap_flags));
  EXPECT_EQ(c.phys_port_cnt_ex, c.orig_attr.phys_port_cnt);
  EXPECT_EQ(c.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(c.hca_core_clock, 1'000'000u);
  EXPECT_EQ(c.cq_mod_caps.max_cq_count, 7);
  EXPECT_EQ(c.cq_mod_caps.max_cq_period, 8);
  EXPECT_EQ(c.comp_mask, 0u);
  EXPECT_EQ(c.tso_caps.max_tso, 0u);
  EXPECT_EQ(c.tm_caps.max_num_tags, 0u);
  EXPECT_EQ(c.max_dm_size, 0u);
}

TEST(ConvertAttributes, ThePortIsAnActiveEthernetPortThatNeedsGrhs) {
  model::PortAttributes attributes;
  attributes.active_mtu = model::PathMtu::bytes_2048;
  attributes.rate = {2, 32};
  const ibv_port_attr c = to_c(attributes);
  EXPECT_EQ(c.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(c.phys_state, 5);
  EXPECT_EQ(c.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(c.flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(c.max_mtu, IBV_MTU_4096);
  EXPECT_EQ(c.active_mtu, IBV_MTU_2048);
  EXPECT_EQ(c.active_width, 2);
  EXPECT_EQ(c.active_speed, 32);
  EXPECT_EQ(c.lid, 0);
  EXPECT_EQ(c.max_msg_sz, 0x80000000u);
  EXPECT_EQ(c.pkey_tbl_len, 1);
  EXPECT_EQ(c.port_cap_flags, static_cast<uint32_t>(IBV_PORT_IP_BASED_GIDS));
  EXPECT_EQ(c.gid_tbl_len, static_cast<int>(model::GidTable::kLength));
}

TEST(ConvertAttributes, AGidEntryIsRoceV2OnPortOne) {
  model::GidEntry entry;
  for (uint8_t i = 0; i < 16; ++i) entry.gid.bytes[i] = i;
  entry.ifindex = 7;
  const ibv_gid_entry c = to_c(entry, 3);
  EXPECT_TRUE(std::equal(entry.gid.bytes.begin(), entry.gid.bytes.end(), c.gid.raw));
  EXPECT_EQ(c.gid_index, 3u);
  EXPECT_EQ(c.port_num, 1u);
  EXPECT_EQ(c.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  EXPECT_EQ(c.ndev_ifindex, 7u);
}

TEST(CopyToCaller, WritesWhatBothKnowZeroesWhatOnlyTheCallerKnowsAndNothingBehind) {
  const uint32_t value = 0xffffffff;
  for (size_t size = 0; size <= 8; ++size) {
    std::array<uint8_t, 9> buffer;
    buffer.fill(0xaa);
    copy_to_caller(buffer.data(), size, value);
    for (size_t i = 0; i < buffer.size(); ++i) {
      const uint8_t expected = i >= size ? 0xaa : i < sizeof value ? 0xff : 0;
      EXPECT_EQ(buffer[i], expected) << "size " << size << ", byte " << i;
    }
  }
}

}  // namespace
}  // namespace verbatim::api
