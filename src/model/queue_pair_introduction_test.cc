// Messages that may be lost, to a process that was not introduced yet. Time is the test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/queue_pair_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

constexpr Duration kAgentAnswer = Duration::milliseconds(30'000);
constexpr Duration kIntroduction = Duration::milliseconds(1000);
constexpr Duration kTick = Duration::nanoseconds(1);
constexpr uint32_t kKey = 7;

struct BeforeIntroduction : testing::Test {
  End a{0x10};
  End b{0x20};
  BeforeIntroduction() { a.qp = make_ready(a), b.qp = make_ready(b); }

  static std::unique_ptr<QueuePair> make_ready(End& end) {
    auto qp = QueuePair::create(end.side.device, end.side.events,
                                {.type = QueuePairType::ud,
                                 .pd = end.side.pd.get(),
                                 .send_cq = end.cq.get(),
                                 .receive_cq = end.cq.get(),
                                 .capabilities = {4, 4, 4, 1, 64}})
                  .take();
    using namespace attribute;
    const QueuePairAttributes attributes{.qkey = kKey, .port = 1};
    EXPECT_TRUE(modify(*qp, QueuePairState::init, attributes, kPkeyIndex | kPortNumber | kQkey).ok());
    EXPECT_TRUE(modify(*qp, QueuePairState::rtr).ok());
    EXPECT_TRUE(modify(*qp, QueuePairState::rts, attributes, kSendPsn).ok());
    return qp;
  }
  static void post(End& from, End& to, uint64_t id, const Gid& destination = kHostGid) {
    SendWork work = from.work(to, SendOpcode::send, id, 8);
    work.operands =
        DatagramTarget{.address = {.source = kHostGid, .destination = destination, .pd = from.side.pd->id()},
                       .qpn = to.qp->qpn(),
                       .qkey = kKey};
    ASSERT_TRUE(from.post(work).ok());
  }
  void post(uint64_t id) { post(a, b, id); }
};

TEST_F(BeforeIntroduction, WhoReceivesDatagramsCanBeAskedFor) { EXPECT_EQ(b.side.process.appearances(), 1); }

TEST_F(BeforeIntroduction, WhoHasNoDescriptorToShowItselfIsNotReady) {
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  using namespace attribute;
  ASSERT_TRUE(modify(*b.qp, QueuePairState::init, {.qkey = kKey, .port = 1}, kPkeyIndex | kPortNumber | kQkey).ok());
  b.side.process.answer_introductions({EMFILE});
  EXPECT_EQ(modify(*b.qp, QueuePairState::rtr).error, EMFILE);
  EXPECT_EQ(b.qp->state(), QueuePairState::init);
  b.side.process.answer_introductions({ECONNREFUSED});
  EXPECT_TRUE(modify(*b.qp, QueuePairState::rtr).ok()) << "without an agent it receives what this process sends";
}

TEST_F(BeforeIntroduction, TheFirstDatagramWaitsAndThenLeaves) {
  post(1);
  a.side.clock.advance(kIntroduction + Duration::nanoseconds(-1));
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  EXPECT_THAT(a.side.process.wishes(), testing::Contains(b.qp->qpn().slot()));
  introduce(a.side.process, b.side.process);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 0u);
}

TEST_F(BeforeIntroduction, ItIsLostWhenNobodyIsIntroducedInTime) {
  post(1);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kIntroduction);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
}

TEST_F(BeforeIntroduction, ItWaitsForAnAgentThatIsSlowToAnswer) {
  a.side.process.answer(false);
  post(1);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kAgentAnswer + Duration::nanoseconds(-1));
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.process.peers().nobody_owns(b.qp->qpn().slot());
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kIntroduction + Duration::nanoseconds(-1));
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kTick);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
}

TEST_F(BeforeIntroduction, ItDoesNotWaitForEverForAnAgentThatIsStopped) {
  a.side.process.answer(false);
  post(1);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kAgentAnswer);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kIntroduction);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
}

TEST_F(BeforeIntroduction, ItIsLostAtOnceWhenNobodyCanBeAsked) {
  a.side.process.answer_introductions({ECONNREFUSED});
  post(1);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
}

TEST_F(BeforeIntroduction, AMessageToAGroupWaitsUntilEveryoneIsKnown) {
  a.side.process.answer(false);
  ASSERT_TRUE(a.side.device.peers().want_everyone().ok());
  const Gid group = gid_of("ff12::1");
  ASSERT_TRUE(b.side.device.adapter().attach(b.qp->qpn(), group).ok());
  post(a, b, 1, group);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.clock.advance(kAgentAnswer + Duration::nanoseconds(-1));
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  introduce(a.side.process, b.side.process);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  a.side.process.peers().everyone_is_known();
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 0u);
}

// Each question costs the agent a wake-up.
TEST_F(BeforeIntroduction, TheAgentIsAskedOnceForEachMessageThatWaits) {
  post(1);
  for (int times = 0; times < 100; ++times) EXPECT_THAT(poll(*a.cq), IsEmpty());
  EXPECT_EQ(a.side.process.wishes().size(), 1u);
  a.side.clock.advance(kIntroduction);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  for (uint64_t id = 2; id < 10; ++id) {
    post(id);
    EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{id, success}));
  }
  EXPECT_EQ(a.side.process.wishes().size(), 1u);
}

TEST_F(BeforeIntroduction, OnlyTheFirstDatagramToSomebodyAbsentWaits) {
  post(1);
  a.side.clock.advance(kIntroduction);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
  post(2);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{2, success}));
  introduce(a.side.process, b.side.process);
  post(3);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{3, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 2u);
}

// A slot is free when its process has ended, and soon another's.
struct AfterAnEnd : BeforeIntroduction {
  End successor{0x20};
  AfterAnEnd() {
    successor.qp = make_ready(successor);
    introduce(a.side.process, b.side.process);
    post(1);
    EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{1, success}));
    a.side.process.peers().remove(b.side.process.adapter().incarnation());
  }
};

TEST_F(AfterAnEnd, WhoHasSentThereHoldsUpNothingAndFindsTheSuccessor) {
  post(2);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{2, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
  EXPECT_THAT(a.side.process.wishes(), testing::Contains(successor.qp->qpn().slot()));
  introduce(a.side.process, successor.side.process);
  post(a, successor, 3);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{3, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
}

TEST_F(AfterAnEnd, WhoSendsThereForTheFirstTimeWaitsForTheSuccessor) {
  a.qp = make_ready(a);
  post(a, successor, 2);
  EXPECT_THAT(poll(*a.cq), IsEmpty());
  EXPECT_THAT(a.side.process.wishes(), testing::Contains(successor.qp->qpn().slot()));
  introduce(a.side.process, successor.side.process);
  EXPECT_THAT(outcomes(poll(*a.cq)), ElementsAre(Outcome{2, success}));
  EXPECT_EQ(a.side.device.dropped_messages(), 0u);
}

}  // namespace
}  // namespace verbatim::model
