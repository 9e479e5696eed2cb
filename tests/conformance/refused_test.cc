// What this device does not have is refused as by a NIC without it: EOPNOTSUPP, never a crash. The capabilities say the
// same. Where a call needs an object of a kind that cannot be made, it gets a bare one that only knows its context.
#include <cerrno>
#include <cstring>

#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

class Refused : public testing::Test {
 protected:
  // NULL with EOPNOTSUPP.
  template <class Call>
  void expect_null(Call&& call) {
    errno = 0;
    EXPECT_EQ(call(), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  ibv_device_attr_ex limits() const {
    ibv_device_attr_ex limits{};
    EXPECT_EQ(ibv_query_device_ex(side_.context(), nullptr, &limits), 0);
    return limits;
  }

  Side side_;
};

TEST_F(Refused, Counters) {
  ibv_counters_init_attr init{};
  expect_null([&] { return ibv_create_counters(side_.context(), &init); });
  ibv_counters counters{.context = side_.context()};
  ibv_counter_attach_attr attach{};
  ibv_flow flow{.context = side_.context()};
  uint64_t value = 0;
  EXPECT_EQ(ibv_attach_counters_point_flow(&counters, &attach, &flow), EOPNOTSUPP);
  EXPECT_EQ(ibv_read_counters(&counters, &value, 1, 0), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_counters(&counters), EOPNOTSUPP);
}

TEST_F(Refused, FlowSteering) {
  const QpHandle qp = side_.create_queue_pair();
  ibv_flow_attr attr{.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof attr, .port = kPort};
  expect_null([&] { return ibv_create_flow(qp.get(), &attr); });
  ibv_flow flow{.context = side_.context()};
  EXPECT_EQ(ibv_destroy_flow(&flow), EOPNOTSUPP);
  EXPECT_EQ(limits().device_cap_flags_ex & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
}

TEST_F(Refused, FlowActions) {
  ibv_flow_action_esp_attr attr{};
  expect_null([&] { return ibv_create_flow_action_esp(side_.context(), &attr); });
  ibv_flow_action action{.context = side_.context()};
  EXPECT_EQ(ibv_modify_flow_action_esp(&action, &attr), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_flow_action(&action), EOPNOTSUPP);
}

// ibv_query_ece(3): what a provider without such options answers, whatever is asked for.
TEST_F(Refused, EnhancedConnectionEstablishment) {
  const QpHandle qp = side_.create_queue_pair();
  ibv_ece ece{};
  EXPECT_EQ(ibv_query_ece(qp.get(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EOPNOTSUPP);
  ece = {.vendor_id = 1, .options = 1};
  EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EOPNOTSUPP);
}

TEST_F(Refused, WorkQueuesAndTheirTables) {
  ibv_wq_init_attr init{.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = side_.pd(), .cq = side_.cq()};
  expect_null([&] { return ibv_create_wq(side_.context(), &init); });
  ibv_wq queue{.context = side_.context()};
  ibv_wq_attr attr{};
  EXPECT_EQ(ibv_modify_wq(&queue, &attr), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_wq(&queue), EOPNOTSUPP);
  ibv_rwq_ind_table_init_attr table_init{};
  expect_null([&] { return ibv_create_rwq_ind_table(side_.context(), &table_init); });
  ibv_rwq_ind_table table{.context = side_.context()};
  EXPECT_EQ(ibv_destroy_rwq_ind_table(&table), EOPNOTSUPP);
  EXPECT_EQ(limits().max_wq_type_rq, 0u);
  EXPECT_EQ(limits().rss_caps.max_rwq_indirection_tables, 0u);
}

TEST_F(Refused, DeviceMemory) {
  ibv_alloc_dm_attr attr{.length = 64, .log_align_req = 0, .comp_mask = 0};
  expect_null([&] { return ibv_alloc_dm(side_.context(), &attr); });
  ibv_dm memory{.context = side_.context()};
  expect_null([&] { return ibv_reg_dm_mr(side_.pd(), &memory, 0, 64, IBV_ACCESS_LOCAL_WRITE); });
  EXPECT_EQ(ibv_free_dm(&memory), EOPNOTSUPP);
  EXPECT_EQ(limits().max_dm_size, 0u);
}

TEST_F(Refused, RateLimits) {
  const QpHandle qp = side_.create_queue_pair();
  ibv_qp_rate_limit_attr attr{.rate_limit = 1000};
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp.get(), &attr), EOPNOTSUPP);
  EXPECT_EQ(limits().packet_pacing_caps.supported_qpts, 0u);
}

TEST_F(Refused, TagMatching) {
  ibv_srq queue{.context = side_.context()};
  ibv_ops_wr operation{.opcode = IBV_WR_TAG_ADD};
  ibv_ops_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_ops(&queue, &operation, &bad), EOPNOTSUPP);
  EXPECT_EQ(bad, &operation);
  EXPECT_EQ(limits().tm_caps.max_num_tags, 0u);

  ibv_srq_init_attr_ex init{
      .attr = {.max_wr = 1, .max_sge = 1},
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
      .srq_type = IBV_SRQT_TM,
      .pd = side_.pd(),
      .cq = side_.cq()};
  expect_null([&] { return ibv_create_srq_ex(side_.context(), &init); });
}

TEST_F(Refused, RawPackets) {
  for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    ibv_qp_init_attr init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = type};
    expect_null([&] { return ibv_create_qp(side_.pd(), &init); });
  }
  EXPECT_EQ(limits().raw_packet_caps, 0u);
}

TEST_F(Refused, QueuePairTypesOfNobody) {
  for (const int type : {0, 1, 5, 7, 11, 256 + IBV_QPT_RC, -1}) {
    ibv_qp_init_attr init{.send_cq = side_.cq(),
                          .recv_cq = side_.cq(),
                          .cap = kOrdinaryCapabilities,
                          .qp_type = static_cast<ibv_qp_type>(type)};
    errno = 0;
    EXPECT_EQ(ibv_create_qp(side_.pd(), &init), nullptr) << type;
    EXPECT_EQ(errno, EINVAL) << type;
  }
}

TEST_F(Refused, ImportsFromAnotherProcess) {
  expect_null([&] { return ibv_import_device(0); });
  expect_null([&] { return ibv_import_pd(side_.context(), 1); });
  expect_null([&] { return ibv_import_mr(side_.pd(), 1); });
  expect_null([&] { return ibv_import_dm(side_.context(), 1); });
}

TEST_F(Refused, NoPromiseThatDataArrivesInOrder) {
  const QpHandle qp = side_.create_queue_pair();
  EXPECT_EQ(ibv_query_qp_data_in_order(qp.get(), IBV_WR_RDMA_WRITE, 0), 0);
}

TEST_F(Refused, InputOfDeviceQueries) {
  const ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex attr{};
  EXPECT_EQ(ibv_query_device_ex(side_.context(), &input, &attr), EINVAL);
}

// What verbs.h computes itself gives what it should with our numbers.
TEST_F(Refused, WhatTheHeaderComputes) {
  EXPECT_EQ(ibv_inc_rkey(0x12345678), 0x12345679u);
  EXPECT_EQ(ibv_inc_rkey(0x123456ff), 0x12345600u);
  EXPECT_TRUE(ibv_is_qpt_supported(1u << IBV_QPT_RC, IBV_QPT_RC));
  EXPECT_FALSE(ibv_is_qpt_supported(limits().rss_caps.supported_qpts, IBV_QPT_UD));
  EXPECT_GE(ibv_flow_label_to_udp_sport(0), 0xc000);
  EXPECT_EQ(&verbs_get_ctx(side_.context())->context, side_.context());
}

}  // namespace
}  // namespace verbatim::conformance
