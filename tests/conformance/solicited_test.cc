// Receivers that want to hear of solicited messages alone: ibv_req_notify_cq(3) with solicited_only,
// IBV_SEND_SOLICITED.
#include "conformance/support/notifying_pair.h"

namespace verbatim::conformance {
namespace {

// The pair's "responder" sends, and the side that has a channel receives.
class Solicited : public NotifyingPair, public testing::WithParamInterface<std::tuple<Setting, ibv_wr_opcode>> {
 protected:
  Solicited() { NotifyingPair::set_up(std::get<0>(GetParam())); }

  void post_receive(ibv_qp* qp, uint64_t id) const {
    NotifyingPair::post_receive(qp, id, std::get<1>(GetParam()) == IBV_WR_RDMA_WRITE_WITH_IMM);
  }
  void far_sends(uint32_t index, unsigned flags = 0) {
    EXPECT_EQ(far_->post_send(index, {.opcode = std::get<1>(GetParam()),
                                      .piece = {0, 8},
                                      .remote_address = memory_->address(),
                                      .rkey = region_->rkey,
                                      .flags = IBV_SEND_SIGNALED | flags}),
              0);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, Solicited,
                         testing::Combine(every_setting(), testing::Values(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
                                                                           IBV_WR_RDMA_WRITE_WITH_IMM)),
                         [](const testing::TestParamInfo<std::tuple<Setting, ibv_wr_opcode>>& info) {
                           return name(std::get<0>(info.param)) + "Opcode" + std::to_string(std::get<1>(info.param));
                         });

TEST_P(Solicited, MessagesAloneAreEvents) {
  for (const uint64_t id : {1, 2}) post_receive(qp_.get(), id);
  arm(1);
  far_sends(0);
  EXPECT_EQ(take(), 1u);
  EXPECT_FALSE(is_readable());
  far_sends(0, IBV_SEND_SOLICITED);
  expect_one_event();
  EXPECT_EQ(take(), 2u);
}

TEST_P(Solicited, MessagesAloneWakeWhoSleeps) {
  const CqHandle other_cq(ibv_create_cq(near_->context(), kEntries, nullptr, channel_.get(), 0));
  ibv_qp_init_attr init{.send_cq = other_cq.get(), .recv_cq = other_cq.get(), .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_RC;
  const QpHandle other(ibv_create_qp(near_->pd(), &init));
  const Address far_other = far_->create_queue_pair();
  ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
  ASSERT_EQ(conformance::connect(other.get(), far_other), 0);
  for (const uint64_t id : {1, 2}) post_receive(qp_.get(), id);
  post_receive(other.get(), 3);
  arm(1);
  ASSERT_EQ(ibv_req_notify_cq(other_cq.get(), 0), 0);
  // What one process sends to another arrives in order, so that the event of the later message would come second.
  far_sends(0);
  far_sends(1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_TRUE(is_readable(kSoon));
  ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(cq, other_cq.get());
  EXPECT_FALSE(is_readable());
  far_sends(0, IBV_SEND_SOLICITED);
  expect_one_event();
  EXPECT_EQ(take({}), 1u);
  EXPECT_EQ(take({}), 2u);
}

}  // namespace
}  // namespace verbatim::conformance
