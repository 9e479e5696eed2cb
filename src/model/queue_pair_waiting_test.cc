// A queue pair whose peer is not ready, not there, or dead; and one that is being drained. Time is the test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/queue_pair_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

constexpr uint32_t kSlice = local::kSliceBytes;
constexpr Duration kTick = Duration::nanoseconds(1);

struct QueuePairWaiting : testing::Test, QueuePairEnds {
  // b exists, but is not ready for a.
  void begin(uint8_t timeout = 10) {
    ASSERT_TRUE(to_init(*b.qp, a.qp->qpn()).ok());
    ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
    ASSERT_TRUE(to_rtr(*a.qp, b.qp->qpn()).ok());
    QueuePairAttributes attributes = good_attributes(b.qp->qpn());
    attributes.timeout = timeout;
    ASSERT_TRUE(modify(*a.qp, QueuePairState::rts, attributes, kRtsMask).ok());
  }
  void pass(Duration time) { a.side.clock.advance(time); }
};

TEST_F(QueuePairWaiting, ARequestThatMeetsItsPeerInTimeSucceeds) {
  begin();
  ASSERT_TRUE(a.post(write(1)).ok());
  pass(kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 8, b.memory.begin()));
}

TEST_F(QueuePairWaiting, ARequestFailsWhenItsTimeIsOverAndTheOthersAreFlushed) {
  begin();
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(a.post(write(id)).ok());
  ASSERT_TRUE(a.qp->post_receive({9, {}}).ok());
  pass(kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  EXPECT_EQ(a.qp->state(), QueuePairState::rts);
  pass(kTick);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions),
              ElementsAre(Outcome{1, retry_exceeded}, Outcome{2, flushed}, Outcome{3, flushed}, Outcome{9, flushed}));
  EXPECT_EQ(completions[0].reason, Reason::peer_not_ready);
  EXPECT_EQ(completions[1].reason, Reason::flushed);
  EXPECT_EQ(completions[3].opcode, CompletionOpcode::receive);
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(QueuePairWaiting, TheEngineEndsTheWaitWhenNobodyPolls) {
  begin();
  ASSERT_TRUE(a.post(write(1)).ok());
  pass(kPatience);
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::none);
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(QueuePairWaiting, TimeoutZeroWaitsForEver) {
  begin(0);
  ASSERT_TRUE(a.post(write(1)).ok());
  for (int day = 0; day < 3; ++day) {
    pass(Duration::milliseconds(24 * 3600 * 1000));
    EXPECT_THAT(poll_a(), IsEmpty());
    EXPECT_EQ(a.side.device.carry_on(a.side.clock.now() + Duration::milliseconds(1)), Backlog::waiting);
  }
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(QueuePairWaiting, TheLongestTimeoutDoesNotOverflow) {
  begin(31);
  ASSERT_TRUE(a.post(write(1)).ok());
  const Duration patience = Duration::nanoseconds((int64_t{4096} << 31) * 2);
  pass(patience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
}

TEST_F(QueuePairWaiting, EveryWaitHasItsWholeTime) {
  begin();
  ASSERT_TRUE(a.post(write(1)).ok());
  pass(kPatience + Duration::nanoseconds(-1));
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  EXPECT_EQ(poll_a().size(), 1u);
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  pass(kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, retry_exceeded}));
}

TEST_F(QueuePairWaiting, APeerThatNobodyKnowsIsWaitedForASecondLonger) {
  connect(*a.qp, Qpn::of(Slot{0x77}, 1));
  ASSERT_TRUE(a.post(write(1)).ok());
  pass(kPatienceWithStrangers);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, retry_exceeded}));
  EXPECT_EQ(completions[0].reason, Reason::peer_unknown);
}

TEST_F(QueuePairWaiting, ADestroyedQueuePairIsWaitedForAsLong) {
  connect_both();
  b.qp.reset();
  ASSERT_TRUE(a.post(write(1)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kPatience);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
}

TEST_F(QueuePairWaiting, ADeadPeerIsNotWaitedFor) {
  connect_both();
  ASSERT_TRUE(a.post(write(1)).ok());
  a.side.process.peers().remove(b.side.process.adapter().incarnation());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  ASSERT_TRUE(a.post(write(2)).ok());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{2, retry_exceeded}));
  EXPECT_EQ(completions[0].reason, Reason::peer_dead);
}

TEST_F(QueuePairWaiting, WhatAPeerAnsweredBeforeItDiedCounts) {
  connect_both();
  const Sge sge{reinterpret_cast<uint64_t>(b.memory.data()), 8, b.region->key()};
  ASSERT_TRUE(b.qp->post_receive({1, {&sge, 1}}).ok());
  ASSERT_TRUE(a.post(a.work(b, SendOpcode::send, 2, 8)).ok());
  b.side.device.carry_on(b.side.clock.now());
  EXPECT_THAT(outcomes(poll(*b.cq)), ElementsAre(Outcome{1, success}));
  a.side.process.peers().remove(b.side.process.adapter().incarnation());
  a.side.device.on_peer_dead();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
}

TEST_F(QueuePairWaiting, APeerThatDiesWhileItIsWaitedForEndsTheWait) {
  connect_both();
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  ASSERT_TRUE(a.post(write(1)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  a.side.process.peers().remove(b.side.process.adapter().incarnation());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
}

// ---- draining ----

struct QueuePairDraining : QueuePairWaiting {
  Status drain(bool notify = true) {
    QueuePairAttributes attributes;
    attributes.notify_drained = notify;
    return modify(*a.qp, QueuePairState::sqd, attributes, attribute::kSqdNotify);
  }
  int drained_events() {
    int count = 0;
    for (const AsyncEvent& event : a.side.take_events()) {
      EXPECT_EQ(event.type, AsyncEventType::send_queue_drained);
      EXPECT_EQ(event.element, &a);
      ++count;
    }
    return count;
  }
};

TEST_F(QueuePairDraining, AnIdleQueueIsDrainedAtOnceAndSaysSoOnce) {
  connect_both();
  ASSERT_TRUE(drain().ok());
  EXPECT_EQ(drained_events(), 1);
  poll_a();
  EXPECT_EQ(drained_events(), 0);
}

TEST_F(QueuePairDraining, WithoutTheWishNobodyIsTold) {
  connect_both();
  ASSERT_TRUE(drain(false).ok());
  EXPECT_EQ(drained_events(), 0);
}

TEST_F(QueuePairDraining, RequestsAreTakenButNotBegunUntilRts) {
  connect_both();
  ASSERT_TRUE(drain(false).ok());
  ASSERT_TRUE(a.post(write(1)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  EXPECT_EQ(b.memory[0], 0);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(QueuePairDraining, AMessageThatHasBegunIsFinishedFirst) {
  connect_both();
  ASSERT_TRUE(a.post(write(1, 6 * kSlice)).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  ASSERT_TRUE(drain().ok());
  EXPECT_EQ(drained_events(), 0);
  std::vector<Outcome> all;
  for (int i = 0; i < 8; ++i)
    for (const Outcome& outcome : outcomes(poll_a())) all.push_back(outcome);
  EXPECT_THAT(all, ElementsAre(Outcome{1, success}));
  EXPECT_EQ(drained_events(), 1);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
}

TEST_F(QueuePairDraining, APeerMayBeDrainingToo) {
  connect_both();
  ASSERT_TRUE(modify(*b.qp, QueuePairState::sqd).ok());
  ASSERT_TRUE(a.post(write(1)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

}  // namespace
}  // namespace verbatim::model
