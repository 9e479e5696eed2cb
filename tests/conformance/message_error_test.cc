// Messages that the receiver refuses, or has no receive for, over the reliable transports: what either side hears of
// it, and what becomes of the receives.
#include <algorithm>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than what travels with the request, so that the receiver fetches it.
constexpr uint32_t kFetched = 12'000;
constexpr uint64_t kRefused = 7;
constexpr uint64_t kInto = 1024;  // where the receives' room begins

// Over which transport, and whether the receives are of a shared queue.
struct Way {
  ibv_qp_type type;
  bool shared;
};

std::string way_name(const testing::TestParamInfo<std::tuple<Setting, Way>>& info) {
  const auto& [setting, way] = info.param;
  return name(setting) + (way.type == IBV_QPT_XRC_SEND ? "Xrc" : way.shared ? "RcShared" : "Rc");
}

class MessageError : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Way>> {
 protected:
  MessageError() {
    set_up(std::get<0>(GetParam()), IBV_WR_SEND, kLength, way().type, way().shared);
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
  }
  Way way() const { return std::get<1>(GetParam()); }
  bool extended() const { return way().type == IBV_QPT_XRC_SEND; }

  Request message(uint64_t id, uint32_t length, ibv_wr_opcode opcode = IBV_WR_SEND) const {
    Request request = PairTest::request(id, 0, length);
    request.opcode = opcode;
    return request;
  }
  void post_receive(uint64_t id, uint32_t length) {
    EXPECT_EQ(far_->post_receive(0, id, {{kInto, length}}), 0) << "receive " << id;
  }
  void expect_receive(uint64_t id, ibv_wc_status status) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id;
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, status, far_address_.qpn, status != IBV_WC_SUCCESS}));
  }
  void expect_far_unchanged() { EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt); }

  void expect_requester_broken(ibv_wc_status status) {
    EXPECT_EQ(next(), failed(kRefused, status));
    EXPECT_EQ(next(), flushed(kRefused + 1));
    EXPECT_EQ(next(), flushed(kRefused + 2));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0))) << "the requester's error is a completion, no event";
  }
  Posted post_with_two_more(const Request& first) {
    Request quiet = message(kRefused + 1, 8);
    quiet.flags = 0;
    return post({first, quiet, message(kRefused + 2, 8)});
  }
  // Both queue pairs are in ERR, the receiver's with these events; those that wait in a shared queue are nobody's yet.
  void expect_receiver_broken(std::vector<ibv_event_type> events) {
    EXPECT_EQ(far_->state_of(), IBV_QPS_ERR);
    // A queue pair that takes its receives from a shared queue says when it takes no more (ibv_get_async_event(3)).
    if (way().shared && !extended()) events.push_back(IBV_EVENT_QP_LAST_WQE_REACHED);
    std::vector<ibv_event_type> seen;
    for (size_t i = 0; i < events.size(); ++i)
      if (const std::optional<Event> event = far_->next_event()) seen.push_back(event->type);
    std::ranges::sort(seen);
    std::ranges::sort(events);
    EXPECT_EQ(seen, events);
    EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
  }
  // The receive that the refused message took ends so; the one behind it is still there if the queue is a shared one.
  void expect_taken_receive(ibv_wc_status status) {
    expect_receive(1, status);
    if (!way().shared) expect_receive(2, IBV_WC_WR_FLUSH_ERR);
    EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0)));
  }
  void reconnect() {
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    connect();
  }
  void expect_delivered(uint64_t receive) {
    EXPECT_EQ(post(message(99, 8)), kAllPosted);
    EXPECT_EQ(next(), succeeded(99));
    expect_receive(receive, IBV_WC_SUCCESS);
  }
};
constexpr Way kWays[] = {{IBV_QPT_RC, false}, {IBV_QPT_RC, true}, {IBV_QPT_XRC_SEND, true}};
INSTANTIATE_TEST_SUITE_P(Each, MessageError, testing::Combine(every_setting(), testing::ValuesIn(kWays)), way_name);

// ---- the receive cannot take it ----

TEST_P(MessageError, LongerThanTheReceiveIsAnErrorOfBoth) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM})
    for (const uint32_t room : {0u, 63u, kFetched - 1}) {
      SCOPED_TRACE(std::to_string(room) + " bytes of room");
      reconnect();
      post_receive(1, room);
      post_receive(2, kFetched);
      EXPECT_EQ(post_with_two_more(message(kRefused, room + 1, opcode)), kAllPosted);
      expect_requester_broken(IBV_WC_REM_INV_REQ_ERR);
      expect_taken_receive(IBV_WC_LOC_LEN_ERR);
      expect_receiver_broken({});
      expect_far_unchanged();
      if (!way().shared) continue;
      reconnect();
      expect_delivered(2);
      far_->fill(0, kLength, 1);
    }
}

TEST_P(MessageError, AsLongAsTheReceiveIsNone) {
  connect();
  post_receive(1, kFetched);
  EXPECT_EQ(post(message(1, kFetched)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  expect_receive(1, IBV_WC_SUCCESS);
}

// A receive that its own memory fails: the sender hears that the other end has a trouble of its own.
class BadReceive : public MessageError {
 protected:
  // The receive has good room for eight bytes before the bad piece.
  void expect_refused(uint32_t length, const Piece& bad, bool deregistered = false) {
    connect();
    EXPECT_EQ(far_->post_receive(0, 1, {{kInto, 8}, bad}), 0);
    post_receive(2, kFetched);
    if (deregistered) far_->deregister_memory();
    EXPECT_EQ(post_with_two_more(message(kRefused, length)), kAllPosted);
    expect_requester_broken(IBV_WC_REM_OP_ERR);
    expect_taken_receive(IBV_WC_LOC_PROT_ERR);
    expect_receiver_broken({});
  }
};
INSTANTIATE_TEST_SUITE_P(Each, BadReceive, testing::Combine(every_setting(), testing::ValuesIn(kWays)), way_name);

TEST_P(BadReceive, WhoseRegionIsGone) { expect_refused(64, {kInto + 8, 56}, true); }
TEST_P(BadReceive, WhoseRegionIsGoneBeforeALongMessage) { expect_refused(kFetched, {kInto + 8, kFetched}, true); }
TEST_P(BadReceive, WhoseLastPieceEndsOneByteAfterTheRegion) {
  expect_refused(64, {kLength - 55, 56});
  expect_far_unchanged();
}
TEST_P(BadReceive, OfARegionOfAnotherPd) {
  remote_ = far_->register_memory(kLength, kEveryAccess, true);
  far_->fill(0, kLength, 1);
  expect_refused(64, {kInto + 8, 56});
  expect_far_unchanged();
}
TEST_P(BadReceive, OfARegionThatIsNotLocallyWritable) {
  remote_ = far_->register_memory(kLength, IBV_ACCESS_REMOTE_READ);
  far_->fill(0, kLength, 1);
  expect_refused(64, {kInto + 8, 56});
  expect_far_unchanged();
}
// What is empty is not looked at, as at the sender.
TEST_P(BadReceive, IsNoneWhenTheMessageDoesNotReachItsBadPiece) {
  connect();
  EXPECT_EQ(far_->post_receive(0, 1, {{kInto, 8}, {kLength - 55, 56}}), 0);
  EXPECT_EQ(post(message(1, 8)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  expect_receive(1, IBV_WC_SUCCESS);
}

// ---- there is no receive ----

class NoReceive : public MessageError {
 protected:
  // Both as long as it takes and well before any time-out of the transport's.
  void expect_given_up(const Wiring& wiring, std::chrono::nanoseconds patience) {
    connect(wiring);
    const auto start = Clock::now();
    EXPECT_EQ(post_with_two_more(message(kRefused, 64)), kAllPosted);
    expect_requester_broken(IBV_WC_RNR_RETRY_EXC_ERR);
    const auto waited = Clock::now() - start;
    EXPECT_GE(waited, patience);
    EXPECT_LT(waited, patience + std::chrono::seconds(5));
    // The receiver has noticed nothing.
    EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
    EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
    EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0)));
    expect_far_unchanged();
    reconnect_near();
    post_receive(1, 64);
    expect_delivered(1);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NoReceive, testing::Combine(every_setting(), testing::ValuesIn(kWays)), way_name);

TEST_P(NoReceive, AndNoRetriesIsAnErrorOfTheSender) {
  // At once, whatever the timer: RequesterWithoutReceive.NoRetriesEndAtOnce, on an injected clock.
  expect_given_up({.timeout = 0, .rnr_retry = 0, .min_rnr_timer = 0}, {});
}

TEST_P(NoReceive, UntilTheRetriesAreUsedUpIsAnErrorOfTheSender) {
  // 20.48 ms.
  expect_given_up({.rnr_retry = 3, .min_rnr_timer = 22}, 3 * std::chrono::microseconds(20'480));
}

TEST_P(NoReceive, AndSevenRetriesWaitForEver) {
  // Six times 10 us would be over long before the receive comes.
  connect({.rnr_retry = 7, .min_rnr_timer = 1});
  EXPECT_EQ(post(message(1, 64)), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(50)));
  post_receive(1, 64);
  EXPECT_EQ(next(), succeeded(1));
  expect_receive(1, IBV_WC_SUCCESS);
}

TEST_P(NoReceive, UntilOneComesInTimeIsNoError) {
  // Three times 655 ms for each.
  connect({.rnr_retry = 3, .min_rnr_timer = 0});
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(post(message(id, 64)), kAllPosted);
    EXPECT_TRUE(no_completion(std::chrono::milliseconds(1)));
    post_receive(id, 64);
    EXPECT_EQ(next(), succeeded(id));
    expect_receive(id, IBV_WC_SUCCESS);
  }
}

}  // namespace
}  // namespace verbatim::conformance
