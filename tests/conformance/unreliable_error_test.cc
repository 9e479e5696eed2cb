// UC and UD: what the receiver would refuse is lost, its sender hears of success, and the next good message arrives.
// The sender's own errors stop its send queue until it is brought back to RTS.
#include "conformance/support/datagram_header.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kFetched = 12'000;  // longer than what travels with the request
constexpr uint64_t kInto = 2048;       // where receives begin
constexpr uint32_t kRoom = 100;

class Unreliable : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  explicit Unreliable(ibv_qp_type type) {
    set_up(GetParam(), IBV_WR_SEND, kLength, type);
    for (const ibv_qp_type each : {type, IBV_QPT_RC}) far_addresses_.push_back(far_->create_queue_pair(each));
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    barrier_ = near_->create_queue_pair();
    EXPECT_EQ(far_->connect(2, near_->address_of(barrier_.get())), 0);
    EXPECT_EQ(conformance::connect(barrier_.get(), far_addresses_[1]), 0);
  }
  void TearDown() override {
    barrier_.reset();
    PairTest::TearDown();
  }

  // A reliable message that was answered: whatever went before it to that process has been served.
  void expect_all_served() {
    EXPECT_EQ(far_->post_receive(2, 500, {}), 0);
    EXPECT_EQ(conformance::post(barrier_.get(), {{.id = 501, .opcode = IBV_WR_SEND}}), kAllPosted);
    EXPECT_EQ(next(), (Outcome{501, IBV_WC_SUCCESS, barrier_->qp_num, false}));
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(outcome_of(*received), (Outcome{500, IBV_WC_SUCCESS, far_addresses_[1].qpn, false}))
        << "a receive was consumed";
  }
  void post_receive(uint64_t id, uint32_t room = kRoom) { ASSERT_EQ(far_->post_receive(0, id, {{kInto, room}}), 0); }
  void expect_receive(uint64_t id, uint32_t length) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id;
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, far_address_.qpn, false}));
    EXPECT_EQ(completion->byte_len, length);
  }
  // The sender hears of success, the receiver of nothing.
  void expect_lost(const Request& request) {
    EXPECT_EQ(post(request), kAllPosted);
    EXPECT_EQ(next(), succeeded(request.id));
    expect_all_served();
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  }
  void expect_nothing_broken() {
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
    EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
    EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0)));
    EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
    EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0)));
  }
  // The sender hears of success; the receiver's queue pair breaks with the receive that it cannot fill.
  void expect_receiver_broken(const Request& request, uint64_t bad, uint64_t behind) {
    EXPECT_EQ(post(request), kAllPosted);
    EXPECT_EQ(next(), succeeded(request.id));
    for (const Outcome expected : {Outcome{bad, IBV_WC_LOC_PROT_ERR, far_address_.qpn, true},
                                   Outcome{behind, IBV_WC_WR_FLUSH_ERR, far_address_.qpn, true}}) {
      const std::optional<ibv_wc> completion = far_->poll();
      ASSERT_TRUE(completion) << "receive " << expected.id;
      EXPECT_EQ(outcome_of(*completion), expected);
    }
    EXPECT_EQ(far_->state_of(), IBV_QPS_ERR);
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  }
  // The request's own error: the send queue stops, and goes on by modify alone.
  void expect_stopped(Request bad, ibv_wc_status status) {
    bad.id = 7;
    Request next_one = bad;
    next_one.id = 8;
    EXPECT_EQ(post({bad, next_one}), kAllPosted);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_SQE);
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  }

  std::vector<Address> far_addresses_;  // of its queue pairs 1 and 2
  QpHandle barrier_;
};

// ---- UC ----

class UnreliableError : public Unreliable {
 protected:
  UnreliableError() : Unreliable(IBV_QPT_UC) {}

  Request message(uint64_t id, uint32_t length = 64, ibv_wr_opcode opcode = IBV_WR_SEND) const {
    Request request = PairTest::request(id, 0, length);
    request.opcode = opcode;
    return request;
  }
  static constexpr ibv_wr_opcode kOperations[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
  void expect_delivered(uint64_t receive) {
    EXPECT_EQ(post(message(99)), kAllPosted);
    EXPECT_EQ(next(), succeeded(99));
    expect_receive(receive, 64);
    EXPECT_EQ(far_->first_difference(kInto, 64, 2, 0), std::nullopt);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, UnreliableError, every_setting(), setting_name);

TEST_P(UnreliableError, WithoutAReceiveAMessageIsLost) {
  connect();
  for (const uint32_t length : {0u, 64u, kFetched}) expect_lost(message(1, length));
  // What it writes may be there, but nobody is told.
  EXPECT_EQ(post(message(2, 0, IBV_WR_RDMA_WRITE_WITH_IMM)), kAllPosted);
  EXPECT_EQ(next(), succeeded(2));
  expect_all_served();
  expect_nothing_broken();
  post_receive(1);
  expect_delivered(1);
}

TEST_P(UnreliableError, LongerThanTheReceiveAMessageIsLostAndTheReceiveStays) {
  connect();
  post_receive(1);
  for (const uint32_t length : {kRoom + 1, kFetched}) expect_lost(message(1, length));
  expect_nothing_broken();
  expect_delivered(1);
}

// What was taken from a shared queue cannot be put back (IBTA 9.9.3, class E).
TEST_P(UnreliableError, LongerThanASharedReceiveAMessageBreaksTheReceiverAlone) {
  constexpr uint32_t kIndex = 3;
  far_address_ = far_->create_queue_pair(IBV_QPT_UC, true);
  ASSERT_EQ(far_->connect(kIndex, near_->address_of(qp_.get()), {}, IBV_QPT_UC), 0);
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);
  ASSERT_EQ(far_->post_receive(kIndex, 1, {{kInto, kRoom}}), 0);
  EXPECT_EQ(post(message(1, kRoom + 1)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  const std::optional<ibv_wc> completion = far_->poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(outcome_of(*completion), (Outcome{1, IBV_WC_LOC_LEN_ERR, far_address_.qpn, true}));
  const std::optional<Event> event = far_->next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(far_->state_of(kIndex), IBV_QPS_ERR);
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
}

TEST_P(UnreliableError, AReceiveWhoseSgeIsBadBreaksTheReceiverAlone) {
  for (const uint32_t length : {64u, kFetched}) {
    SCOPED_TRACE(length);
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    connect();
    ASSERT_EQ(far_->post_receive(0, 1, {{kLength - kFetched + 1, kFetched}}), 0);
    post_receive(2);
    expect_receiver_broken(message(1, length), 1, 2);
  }
}

TEST_P(UnreliableError, AWriteThatItsKeyDoesNotAllowIsLostAndTheReceiveStays) {
  connect();
  post_receive(1);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    Request bad = message(1, 64, opcode);
    bad.rkey ^= 0x5a5a00;
    expect_lost(bad);
    bad = message(2, 64, opcode);
    bad.remote_address += kLength - 63;
    expect_lost(bad);
  }
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(UnreliableError, AWriteThatTheRegionDoesNotGrantIsLost) {
  remote_ = far_->register_memory(kLength, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  far_->fill(0, kLength, 1);
  connect();
  post_receive(1);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM})
    expect_lost(message(1, 64, opcode));
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(UnreliableError, AWriteThatTheTargetDoesNotAllowIsLost) {
  connect({}, {.access = IBV_ACCESS_LOCAL_WRITE});
  post_receive(1);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM})
    expect_lost(message(1, 64, opcode));
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(UnreliableError, ToAPeerThatIsNotReadyItIsLost) {
  for (const ibv_qp_state state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
    SCOPED_TRACE(state);
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    connect();
    ASSERT_EQ(far_->to_state(0, state), 0);
    for (const ibv_wr_opcode opcode : kOperations) expect_lost(message(1, 64, opcode));
    // It comes back, with nothing new at this end.
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get()), {}, IBV_QPT_UC), 0);
    post_receive(1);
    expect_delivered(1);
    expect_nothing_broken();
    far_->fill(0, kLength, 1);
  }
}

TEST_P(UnreliableError, ToADestroyedPeerItIsLost) {
  connect();
  ASSERT_EQ(far_->destroy_queue_pair(), 0);
  for (const ibv_wr_opcode opcode : kOperations) expect_lost(message(1, 64, opcode));
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(far_->connect(1, near_->address_of(qp_.get()), {}, IBV_QPT_UC), 0);
  ASSERT_EQ(conformance::connect(qp_.get(), far_addresses_[0]), 0);
  ASSERT_EQ(far_->post_receive(1, 1, {{kInto, kRoom}}), 0);
  far_address_ = far_addresses_[0];
  expect_delivered(1);
}

TEST_P(UnreliableError, WhatUnreliableConnectionsDoNotHaveStopsTheSendQueue) {
  connect();
  post_receive(1);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD})
    expect_stopped(message(0, 8, opcode), IBV_WC_LOC_QP_OP_ERR);
  Request bad = message(0);
  bad.sges[0].lkey ^= 0x5a5a00;
  expect_stopped(bad, IBV_WC_LOC_PROT_ERR);
  expect_nothing_broken();
  expect_delivered(1);
}

// ---- UD ----

class DatagramError : public Unreliable {
 protected:
  DatagramError() : Unreliable(IBV_QPT_UD), handle_(near_->create_address_handle(far_address_.gid)) { connect(); }
  void TearDown() override {
    Unreliable::TearDown();
    handle_.reset();
  }

  Request message(uint64_t id, uint32_t length = 64) const {
    Request request = PairTest::request(id, 0, length);
    request.handle = handle_.get();
    request.qpn = far_address_.qpn;
    request.qkey = Wiring{}.qkey;
    return request;
  }
  void expect_delivered(uint64_t receive) {
    EXPECT_EQ(post(message(99, kRoom - kDatagramHeader)), kAllPosted);
    EXPECT_EQ(next(), succeeded(99));
    expect_receive(receive, kRoom);
    EXPECT_EQ(far_->first_difference(kInto + kDatagramHeader, kRoom - kDatagramHeader, 2, 0), std::nullopt);
  }

  AhHandle handle_;
};
INSTANTIATE_TEST_SUITE_P(Each, DatagramError, every_setting(), setting_name);

TEST_P(DatagramError, WithoutAReceiveItIsLost) {
  expect_lost(message(1));
  expect_nothing_broken();
  post_receive(1);
  expect_delivered(1);
}

TEST_P(DatagramError, WithAnotherQkeyItIsLost) {
  post_receive(1);
  Request bad = message(1, 8);
  ++bad.qkey;
  expect_lost(bad);
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(DatagramError, LongerThanTheReceiveItIsLostAndTheReceiveStays) {
  post_receive(1);
  expect_lost(message(1, kRoom - kDatagramHeader + 1));
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(DatagramError, AReceiveWhoseSgeIsBadBreaksTheReceiverAlone) {
  ASSERT_EQ(far_->post_receive(0, 1, {{kLength - kRoom + 1, kRoom}}), 0);
  post_receive(2);
  expect_receiver_broken(message(1, kRoom - kDatagramHeader), 1, 2);
}

TEST_P(DatagramError, ToOneThatIsNotReadyItIsLost) {
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  expect_lost(message(1));
  ASSERT_EQ(far_->connect(0, {}, {}, IBV_QPT_UD), 0);
  post_receive(1);
  expect_delivered(1);
  expect_nothing_broken();
}

TEST_P(DatagramError, ToADestroyedOneItIsLost) {
  ASSERT_EQ(far_->destroy_queue_pair(), 0);
  expect_lost(message(1));
  ASSERT_EQ(far_->connect(1, {}, {}, IBV_QPT_UD), 0);
  ASSERT_EQ(far_->post_receive(1, 1, {{kInto, kRoom}}), 0);
  far_address_ = far_addresses_[0];
  expect_delivered(1);
}

TEST_P(DatagramError, LongerThanThePathCarriesItStopsTheSendQueue) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(near_->context(), kPort, &port), 0);
  const uint32_t limit = 128u << port.active_mtu;
  post_receive(1, limit + kDatagramHeader);
  expect_stopped(message(0, limit + 1), IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(post(message(1, limit)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  expect_receive(1, limit + kDatagramHeader);
  expect_nothing_broken();
}

TEST_P(DatagramError, AnSgeThatIsBadStopsTheSendQueue) {
  post_receive(1);
  Request bad = message(0, 8);
  bad.sges[0].lkey ^= 0x5a5a00;
  expect_stopped(bad, IBV_WC_LOC_PROT_ERR);
  bad = message(0, 8);
  bad.sges[0].addr = memory_->address(kLength - 7);
  expect_stopped(bad, IBV_WC_LOC_PROT_ERR);
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(DatagramError, AnAddressOfAnotherPdStopsTheSendQueue) {
  ibv_ah_attr address{.grh = {.dgid = far_address_.gid, .hop_limit = 64}, .is_global = 1, .port_num = kPort};
  const AhHandle foreign(ibv_create_ah(near_->other_pd(), &address));
  ASSERT_TRUE(foreign) << strerror(errno);
  post_receive(1);
  Request bad = message(0);
  bad.handle = foreign.get();
  expect_stopped(bad, IBV_WC_LOC_QP_OP_ERR);
  expect_nothing_broken();
  expect_delivered(1);
}

TEST_P(DatagramError, WhatDatagramsDoNotHaveStopsTheSendQueue) {
  post_receive(1);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
                                     IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    Request bad = PairTest::request(0, 0, 8);
    bad.opcode = opcode;
    expect_stopped(bad, IBV_WC_LOC_QP_OP_ERR);
  }
  expect_nothing_broken();
  expect_delivered(1);
}

// ---- a peer that is killed ----

using UnreliableToTheDead = UnreliableError;
INSTANTIATE_TEST_SUITE_P(Each, UnreliableToTheDead, other_processes(), setting_name);

TEST_P(UnreliableToTheDead, IsLostAndANewPeerIsServed) {
  connect();
  post_receive(1);
  expect_delivered(1);
  far_->kill();
  uint64_t id = 0;
  for (const ibv_wr_opcode opcode : kOperations) {
    EXPECT_EQ(post(message(++id, 64, opcode)), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  }
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  far_ = Responder::start(GetParam());
  remote_ = far_->register_memory(kLength);
  far_address_ = far_->create_queue_pair(IBV_QPT_UC);
  connect();
  post_receive(2);
  expect_delivered(2);
}

using DatagramToTheDead = DatagramError;
INSTANTIATE_TEST_SUITE_P(Each, DatagramToTheDead, other_processes(), setting_name);

TEST_P(DatagramToTheDead, IsLostAndANewTargetIsServed) {
  post_receive(1);
  expect_delivered(1);
  far_->kill();
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(post(message(id)), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  }
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  far_ = Responder::start(GetParam());
  remote_ = far_->register_memory(kLength);
  far_address_ = far_->create_queue_pair(IBV_QPT_UD);
  ASSERT_EQ(far_->connect(0, {}, {}, IBV_QPT_UD), 0);
  post_receive(2);
  expect_delivered(2);
}

}  // namespace
}  // namespace verbatim::conformance
