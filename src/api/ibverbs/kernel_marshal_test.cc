#include <gtest/gtest.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cstring>

extern "C" {
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, const ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, const ib_uverbs_qp_attr* from);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, const ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, const ibv_sa_path_rec* from);
}

namespace {

// Different bytes everywhere, so that no member can be taken for another.
template <class T>
T numbered(uint8_t first) {
  T value;
  for (size_t i = 0; i < sizeof value; ++i) reinterpret_cast<uint8_t*>(&value)[i] = static_cast<uint8_t>(first + i);
  return value;
}

void expect_same(const ibv_ah_attr& to, const ib_uverbs_ah_attr& from) {
  EXPECT_EQ(std::memcmp(to.grh.dgid.raw, from.grh.dgid, 16), 0);
  EXPECT_EQ(to.grh.flow_label, from.grh.flow_label);
  EXPECT_EQ(to.grh.sgid_index, from.grh.sgid_index);
  EXPECT_EQ(to.grh.hop_limit, from.grh.hop_limit);
  EXPECT_EQ(to.grh.traffic_class, from.grh.traffic_class);
  EXPECT_EQ(to.dlid, from.dlid);
  EXPECT_EQ(to.sl, from.sl);
  EXPECT_EQ(to.src_path_bits, from.src_path_bits);
  EXPECT_EQ(to.static_rate, from.static_rate);
  EXPECT_EQ(to.is_global, from.is_global);
  EXPECT_EQ(to.port_num, from.port_num);
}

TEST(KernelMarshal, CopiesAnAddressVector) {
  const auto from = numbered<ib_uverbs_ah_attr>(1);
  ibv_ah_attr to{};
  ibv_copy_ah_attr_from_kern(&to, &from);
  expect_same(to, from);
}

TEST(KernelMarshal, CopiesQueuePairAttributesButNotTheStateThatWasAskedFor) {
  auto from = numbered<ib_uverbs_qp_attr>(1);
  from.cur_qp_state = IBV_QPS_SQD;
  from.path_mtu = IBV_MTU_2048;
  from.path_mig_state = IBV_MIG_REARM;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  ibv_copy_qp_attr_from_kern(&to, &from);
  EXPECT_EQ(to.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(static_cast<uint32_t>(to.cur_qp_state), from.cur_qp_state);
  EXPECT_EQ(static_cast<uint32_t>(to.path_mtu), from.path_mtu);
  EXPECT_EQ(static_cast<uint32_t>(to.path_mig_state), from.path_mig_state);
  EXPECT_EQ(to.qkey, from.qkey);
  EXPECT_EQ(to.rq_psn, from.rq_psn);
  EXPECT_EQ(to.sq_psn, from.sq_psn);
  EXPECT_EQ(to.dest_qp_num, from.dest_qp_num);
  EXPECT_EQ(to.qp_access_flags, from.qp_access_flags);
  EXPECT_EQ(to.cap.max_send_wr, from.max_send_wr);
  EXPECT_EQ(to.cap.max_recv_wr, from.max_recv_wr);
  EXPECT_EQ(to.cap.max_send_sge, from.max_send_sge);
  EXPECT_EQ(to.cap.max_recv_sge, from.max_recv_sge);
  EXPECT_EQ(to.cap.max_inline_data, from.max_inline_data);
  expect_same(to.ah_attr, from.ah_attr);
  expect_same(to.alt_ah_attr, from.alt_ah_attr);
  EXPECT_EQ(to.pkey_index, from.pkey_index);
  EXPECT_EQ(to.alt_pkey_index, from.alt_pkey_index);
  EXPECT_EQ(to.en_sqd_async_notify, from.en_sqd_async_notify);
  EXPECT_EQ(to.sq_draining, from.sq_draining);
  EXPECT_EQ(to.max_rd_atomic, from.max_rd_atomic);
  EXPECT_EQ(to.max_dest_rd_atomic, from.max_dest_rd_atomic);
  EXPECT_EQ(to.min_rnr_timer, from.min_rnr_timer);
  EXPECT_EQ(to.port_num, from.port_num);
  EXPECT_EQ(to.timeout, from.timeout);
  EXPECT_EQ(to.retry_cnt, from.retry_cnt);
  EXPECT_EQ(to.rnr_retry, from.rnr_retry);
  EXPECT_EQ(to.alt_port_num, from.alt_port_num);
  EXPECT_EQ(to.alt_timeout, from.alt_timeout);
}

TEST(KernelMarshal, CopiesAPathRecordFromTheKernelMemberByMember) {
  const auto from = numbered<ib_user_path_rec>(1);
  ibv_sa_path_rec to{};
  ibv_copy_path_rec_from_kern(&to, &from);
  EXPECT_EQ(std::memcmp(to.dgid.raw, from.dgid, 16), 0);
  EXPECT_EQ(std::memcmp(to.sgid.raw, from.sgid, 16), 0);
  EXPECT_EQ(to.dlid, from.dlid);
  EXPECT_EQ(to.slid, from.slid);
  EXPECT_EQ(static_cast<uint32_t>(to.raw_traffic), from.raw_traffic);
  EXPECT_EQ(to.flow_label, from.flow_label);
  EXPECT_EQ(to.hop_limit, from.hop_limit);
  EXPECT_EQ(to.traffic_class, from.traffic_class);
  EXPECT_EQ(static_cast<uint32_t>(to.reversible), from.reversible);
  EXPECT_EQ(to.numb_path, from.numb_path);
  EXPECT_EQ(to.pkey, from.pkey);
  EXPECT_EQ(to.sl, from.sl);
  EXPECT_EQ(to.mtu_selector, from.mtu_selector);
  EXPECT_EQ(to.mtu, from.mtu & 0xff);
  EXPECT_EQ(to.rate_selector, from.rate_selector);
  EXPECT_EQ(to.rate, from.rate);
  EXPECT_EQ(to.packet_life_time_selector, from.packet_life_time_selector);
  EXPECT_EQ(to.packet_life_time, from.packet_life_time);
  EXPECT_EQ(to.preference, from.preference);
}

TEST(KernelMarshal, APathRecordSurvivesTheWayToTheKernelAndBack) {
  auto before = numbered<ib_user_path_rec>(7);
  before.mtu = 3;
  ibv_sa_path_rec between{};
  ibv_copy_path_rec_from_kern(&between, &before);
  ib_user_path_rec after = before;
  std::memset(&after, 0, offsetof(ib_user_path_rec, preference) + 1);
  ibv_copy_path_rec_to_kern(&after, &between);
  EXPECT_EQ(std::memcmp(&after, &before, sizeof after), 0);
}

}  // namespace
