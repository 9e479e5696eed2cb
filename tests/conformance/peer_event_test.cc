// What messages of a peer make of a queue pair, a shared receive queue, or the queue pair that takes from one, as
// ibv_get_async_event(3) tells it: each event once, when it happened and not before.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kMessage = 64;

// The peer sends, and this end is told.
class PeerEvent : public PairTest {
 protected:
  void set_up(Setting setting, ibv_qp_type type, bool shared, uint64_t length = kLength) {
    PairTest::set_up(setting, IBV_WR_SEND, length, type);
    far_->fill(0, length, 1);
    if (!shared) return;
    shared_ = near_->create_shared_queue();
    qp_ = near_->create_queue_pair(kOrdinaryCapabilities, false, type, shared_.get());
  }
  void TearDown() override {
    PairTest::TearDown();
    shared_.reset();
  }

  void post_receive(uint64_t id, uint32_t length = kMessage) {
    ibv_sge sge = local(0, length);
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(shared_ ? ibv_post_srq_recv(shared_.get(), &request, &bad) : ibv_post_recv(qp_.get(), &request, &bad), 0);
  }
  void send(uint64_t id, uint32_t length = kMessage, ibv_wr_opcode opcode = IBV_WR_SEND) {
    const uint64_t there = memory_->address();
    EXPECT_EQ(far_->post_send(0, {.id = id,
                                  .opcode = opcode,
                                  .piece = {0, length},
                                  .remote_address = there,
                                  .rkey = region_->rkey,
                                  .flags = 0}),
              0);
  }
  void expect_received(uint64_t id) { EXPECT_EQ(next(), succeeded(id)); }

  void expect_no_event() {
    const std::optional<ibv_async_event> event = near_->take_event({});
    EXPECT_FALSE(event) << ibv_event_type_str(event->event_type);
  }
  void expect_event_of_queue_pair(ibv_event_type type) {
    const std::optional<ibv_async_event> event = near_->take_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, type) << ibv_event_type_str(event->event_type);
    EXPECT_EQ(event->element.qp, qp_.get());
    expect_no_event();
  }

  SrqHandle shared_;
};

// ---- communication established ----

class CommunicationEstablished : public PeerEvent,
                                 public testing::WithParamInterface<std::tuple<Setting, ibv_qp_type, bool>> {
 protected:
  CommunicationEstablished() {
    const auto& [setting, type, shared] = GetParam();
    set_up(setting, type, shared);
  }
  void meet_in_rtr() {
    ASSERT_EQ(to_init(qp_.get()), 0);
    ASSERT_EQ(to_rtr(qp_.get(), far_address_), 0);
    ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get()), {}, qp_->qp_type), 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, CommunicationEstablished,
                         testing::Combine(every_setting(), testing::Values(IBV_QPT_RC, IBV_QPT_UC), testing::Bool()),
                         [](const auto& info) {
                           return name(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == IBV_QPT_RC ? "Rc" : "Uc") +
                                  (std::get<2>(info.param) ? "Shared" : "");
                         });

TEST_P(CommunicationEstablished, IsWhatTheFirstMessageInRtrSays) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    SCOPED_TRACE(opcode);
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    meet_in_rtr();
    for (uint64_t id = 1; id <= 3; ++id) post_receive(id);
    expect_no_event();
    send(1, kMessage, opcode);
    expect_event_of_queue_pair(IBV_EVENT_COMM_EST);
    expect_received(1);
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTR) << "to go on is the program's affair";
    send(2, kMessage, opcode);
    expect_received(2);
    ASSERT_EQ(to_rts(qp_.get()), 0);
    send(3, kMessage, opcode);
    expect_received(3);
    expect_no_event();
  }
}

TEST_P(CommunicationEstablished, NeedsNoSayingInRts) {
  connect();
  for (uint64_t id = 1; id <= 2; ++id) {
    post_receive(id);
    send(id);
    expect_received(id);
  }
  expect_no_event();
}

// ---- the limit of a shared receive queue ----

class SharedQueueLimit : public PeerEvent, public testing::WithParamInterface<Setting> {
 protected:
  SharedQueueLimit() {
    set_up(GetParam(), IBV_QPT_RC, true);
    connect();
  }
  void arm(uint32_t limit) {
    ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = limit};
    ASSERT_EQ(ibv_modify_srq(shared_.get(), &attributes, IBV_SRQ_LIMIT), 0);
  }
  uint32_t limit() {
    ibv_srq_attr attributes{};
    EXPECT_EQ(ibv_query_srq(shared_.get(), &attributes), 0);
    return attributes.srq_limit;
  }
  void deliver(uint64_t id) {
    send(id);
    expect_received(id);
  }
  void expect_reached() {
    const std::optional<ibv_async_event> event = near_->take_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED) << ibv_event_type_str(event->event_type);
    EXPECT_EQ(event->element.srq, shared_.get());
    EXPECT_EQ(limit(), 0u) << "it is disarmed";
    expect_no_event();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, SharedQueueLimit, every_setting(), setting_name);

TEST_P(SharedQueueLimit, IsReachedWhenMessagesLeaveFewerReceives) {
  for (uint64_t id = 1; id <= 10; ++id) post_receive(id);
  deliver(1);
  arm(5);
  for (uint64_t id = 2; id <= 5; ++id) deliver(id);
  expect_no_event();
  EXPECT_EQ(limit(), 5u);
  deliver(6);
  expect_reached();
  deliver(7);
  expect_no_event();
  // Three are left.
  arm(3);
  expect_no_event();
  deliver(8);
  expect_reached();
  for (uint64_t id = 9; id <= 10; ++id) deliver(id);
  expect_no_event();
}

TEST_P(SharedQueueLimit, IsReachedOnceByAllQueuePairsTogether) {
  const QpHandle other = near_->create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_RC, shared_.get());
  const Address far_other = far_->create_queue_pair();
  ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
  ASSERT_EQ(conformance::connect(other.get(), far_other), 0);
  for (uint64_t id = 1; id <= 4; ++id) post_receive(id);
  arm(3);
  deliver(1);
  expect_no_event();
  ASSERT_EQ(far_->post_send(1, {.id = 2, .opcode = IBV_WR_SEND, .piece = {0, kMessage}, .flags = 0}), 0);
  EXPECT_EQ(next(), (Outcome{2, IBV_WC_SUCCESS, other->qp_num, false}));
  expect_reached();
  deliver(3);
  expect_no_event();
}

// ---- the last receive that a queue pair took from a shared queue ----

class LastReceive : public PeerEvent, public testing::WithParamInterface<Setting> {
 protected:
  static constexpr uint32_t kLarge = 1 << 20;

  LastReceive() {
    set_up(GetParam(), IBV_QPT_RC, true, kLarge);
    other_ = near_->create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_RC, shared_.get());
    const Address far_other = far_->create_queue_pair();
    EXPECT_EQ(far_->connect(1, near_->address_of(other_.get())), 0);
    EXPECT_EQ(conformance::connect(other_.get(), far_other), 0);
  }
  void TearDown() override {
    other_.reset();
    PeerEvent::TearDown();
  }
  // The other queue pair takes the next one, which is that.
  void expect_other_takes(uint64_t receive) {
    EXPECT_EQ(far_->post_send(1, {.id = receive, .opcode = IBV_WR_SEND, .piece = {0, kMessage}, .flags = 0}), 0);
    EXPECT_EQ(next(), (Outcome{receive, IBV_WC_SUCCESS, other_->qp_num, false}));
  }

  QpHandle other_;
};
INSTANTIATE_TEST_SUITE_P(Each, LastReceive, every_setting(), setting_name);

TEST_P(LastReceive, HasBeenTakenWhenTheQueuePairIsInErr) {
  connect();
  for (uint64_t id = 1; id <= 3; ++id) post_receive(id);
  send(1);
  expect_received(1);
  expect_no_event();
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  expect_event_of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_TRUE(no_completion()) << "what waits in the shared queue is nobody's";
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  expect_no_event();
  expect_other_takes(2);
  // Once for each life.
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  expect_no_event();
  connect();
  send(3);
  expect_received(3);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  expect_event_of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED);
}

TEST_P(LastReceive, HasCompletedBeforeTheEventSaysThatItWasTheLast) {
  constexpr uint64_t kCount = 8;
  connect();
  for (uint64_t id = 0; id <= kCount; ++id) post_receive(id, kLarge);
  for (uint64_t id = 0; id < kCount; ++id) send(id, kLarge);
  expect_received(0);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  expect_event_of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED);
  uint64_t taken = 1;
  for (bool flushed_one = false; const std::optional<ibv_wc> completion = near_->poll({}); ++taken) {
    EXPECT_FALSE(flushed_one) << "only one message can be half received";
    flushed_one = completion->status != IBV_WC_SUCCESS;
    EXPECT_EQ(outcome_of(*completion), flushed_one ? flushed(taken) : succeeded(taken));
  }
  // All that it took had been there: the next one is another queue pair's.
  expect_other_takes(taken);
  EXPECT_TRUE(no_completion());
  expect_no_event();
}

}  // namespace
}  // namespace verbatim::conformance
