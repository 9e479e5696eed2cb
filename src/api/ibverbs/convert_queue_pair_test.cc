#include "api/ibverbs/convert_queue_pair.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbatim::api {
namespace {

// Every member of its own value, so that two that change places are seen.
ibv_ah_attr address() {
  ibv_ah_attr address{};
  for (uint8_t i = 0; i < 16; ++i) address.grh.dgid.raw[i] = static_cast<uint8_t>(i + 1);
  address.grh.flow_label = 0x12345;
  address.grh.sgid_index = 2;
  address.grh.hop_limit = 3;
  address.grh.traffic_class = 4;
  address.dlid = 0x5678;
  address.sl = 5;
  address.src_path_bits = 6;
  address.static_rate = 7;
  address.is_global = 1;
  address.port_num = 8;
  return address;
}

bool equal(const ibv_ah_attr& a, const ibv_ah_attr& b) {
  return std::equal(a.grh.dgid.raw, a.grh.dgid.raw + 16, b.grh.dgid.raw) && a.grh.flow_label == b.grh.flow_label &&
         a.grh.sgid_index == b.grh.sgid_index && a.grh.hop_limit == b.grh.hop_limit &&
         a.grh.traffic_class == b.grh.traffic_class && a.dlid == b.dlid && a.sl == b.sl &&
         a.src_path_bits == b.src_path_bits && a.static_rate == b.static_rate && a.is_global == b.is_global &&
         a.port_num == b.port_num;
}

TEST(ConvertQueuePair, AnAddressSurvivesTheWayThereAndBack) {
  EXPECT_TRUE(equal(to_c(from_c(address())), address()));
  EXPECT_EQ(from_c(address()).dgid.bytes[15], 16);
}

TEST(ConvertQueuePair, AnyIsGlobalButZeroMeansAGlobalRoute) {
  ibv_ah_attr global = address();
  global.is_global = 0x80;
  EXPECT_TRUE(from_c(global).is_global);
  global.is_global = 0;
  EXPECT_FALSE(from_c(global).is_global);
}

TEST(ConvertQueuePair, CapabilitiesSurviveTheWayThereAndBack) {
  const ibv_qp_cap c = to_c(from_c(ibv_qp_cap{1, 2, 3, 4, 5}));
  EXPECT_EQ(c.max_send_wr, 1u);
  EXPECT_EQ(c.max_recv_wr, 2u);
  EXPECT_EQ(c.max_send_sge, 3u);
  EXPECT_EQ(c.max_recv_sge, 4u);
  EXPECT_EQ(c.max_inline_data, 5u);
}

TEST(ConvertQueuePair, AttributesSurviveTheWayThereAndBack) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_SQD;
  attr.path_mtu = IBV_MTU_2048;
  attr.path_mig_state = IBV_MIG_ARMED;
  attr.qkey = 0x80010001;
  attr.rq_psn = 0xabcdef;
  attr.sq_psn = 0xfedcba;
  attr.dest_qp_num = 0x123456;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
  attr.ah_attr = address();
  attr.pkey_index = 9;
  attr.max_rd_atomic = 10;
  attr.max_dest_rd_atomic = 11;
  attr.min_rnr_timer = 12;
  attr.port_num = 1;
  attr.timeout = 14;
  attr.retry_cnt = 5;
  attr.rnr_retry = 6;

  const ibv_qp_attr c = to_c(from_c(attr), {.max_send_wr = 77});
  EXPECT_EQ(c.qp_state, attr.qp_state);
  EXPECT_EQ(c.cur_qp_state, attr.cur_qp_state);
  EXPECT_EQ(c.path_mtu, attr.path_mtu);
  EXPECT_EQ(c.path_mig_state, attr.path_mig_state);
  EXPECT_EQ(c.qkey, attr.qkey);
  EXPECT_EQ(c.rq_psn, attr.rq_psn);
  EXPECT_EQ(c.sq_psn, attr.sq_psn);
  EXPECT_EQ(c.dest_qp_num, attr.dest_qp_num);
  EXPECT_EQ(c.qp_access_flags, attr.qp_access_flags);
  EXPECT_TRUE(equal(c.ah_attr, attr.ah_attr));
  EXPECT_EQ(c.pkey_index, attr.pkey_index);
  EXPECT_EQ(c.max_rd_atomic, attr.max_rd_atomic);
  EXPECT_EQ(c.max_dest_rd_atomic, attr.max_dest_rd_atomic);
  EXPECT_EQ(c.min_rnr_timer, attr.min_rnr_timer);
  EXPECT_EQ(c.port_num, attr.port_num);
  EXPECT_EQ(c.timeout, attr.timeout);
  EXPECT_EQ(c.retry_cnt, attr.retry_cnt);
  EXPECT_EQ(c.rnr_retry, attr.rnr_retry);
  EXPECT_EQ(c.cap.max_send_wr, 77u);
}

TEST(ConvertQueuePair, WhetherToReportTheDrainedQueueIsTakenOver) {
  ibv_qp_attr attr{};
  attr.en_sqd_async_notify = 2;
  EXPECT_TRUE(from_c(attr).notify_drained);
}

}  // namespace
}  // namespace verbatim::api
