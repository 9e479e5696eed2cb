// The sending side of messages: what waits for what, in which order requests end, what a peer that is not ready, is
// reset or dies makes of them.
#include "model/requester.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/message_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

constexpr Duration kTick = Duration::nanoseconds(1);
constexpr Duration kIntroduction = Duration::milliseconds(1000);
constexpr uint32_t kLong = 20'000;  // is fetched by the receiver

struct RequesterTest : testing::Test, MessageEnds {};

// ---- messages and their order ----

TEST_F(RequesterTest, AMessageCompletesWhenTheReceiverHasTakenIt) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(1, 100)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  const auto received_by_b = poll_b();
  ASSERT_THAT(outcomes(received_by_b), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(received_by_b[0].opcode, CompletionOpcode::receive);
  EXPECT_EQ(received_by_b[0].byte_length, 100u);
  EXPECT_EQ(received_by_b[0].qpn, b.qp->qpn());
  EXPECT_EQ(received_by_b[0].flags, 0u);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 100, received(0)));
  const auto sent = poll_a();
  ASSERT_THAT(outcomes(sent), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(sent[0].opcode, CompletionOpcode::send);
}

TEST_F(RequesterTest, AMessageOfNoBytesNeedsNoValidKey) {
  bring_both();
  const Sge nowhere{0xdead'beef, 0, MemoryKey{0x666}};
  ASSERT_TRUE(b.qp->post_receive({21, {&nowhere, 1}}).ok());
  SendWork empty = send(1, 0);
  empty.sges = {&nowhere, 1};
  ASSERT_TRUE(a.post(empty).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(RequesterTest, AsManySgesAsWereAskedForAndNoMore) {
  bring_both();
  std::vector<Sge> sources, sinks;
  for (uint32_t i = 0; i < kCapabilities.max_send_sge; ++i) {
    sources.push_back({reinterpret_cast<uint64_t>(a.memory.data()) + i * 1000, 100 + i, a.region->key()});
    sinks.push_back({reinterpret_cast<uint64_t>(received(i)), 100 + i, b.region->key()});
  }
  ASSERT_TRUE(b.qp->post_receive({21, sinks}).ok());
  SendWork work = send(1, 0);
  work.sges = sources;
  for (const Sge& sge : sources) work.length += sge.length;
  ASSERT_TRUE(a.post(work).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  for (uint32_t i = 0; i < sources.size(); ++i)
    EXPECT_EQ(std::memcmp(received(i), a.memory.data() + i * 1000, 100 + i), 0) << i;
  sources.push_back(sources[0]);
  work.sges = sources;
  EXPECT_EQ(a.post(work).error, EINVAL);
  sinks.push_back(sinks[0]);
  EXPECT_EQ(b.qp->post_receive({22, sinks}).error, EINVAL);
}

TEST_F(RequesterTest, WhatFollowsAMessageWaitsForItsAnswer) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  ASSERT_TRUE(a.post(read(3)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  EXPECT_EQ(b.memory[0], 0) << "the write has overtaken the message";
  poll_b();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
}

TEST_F(RequesterTest, ARequestThatFailsEndsBehindTheMessagesBeforeIt) {
  bring_both();
  for (uint64_t id = 21; id <= 22; ++id) ASSERT_TRUE(receive(id).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  SendWork atomic = fetch_add(3, 1);
  atomic.length = 4;
  ASSERT_TRUE(a.post(atomic).ok());
  ASSERT_TRUE(a.post(send(4)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, local_length_error},
                                          Outcome{4, flushed}));
  EXPECT_EQ(at_a[2].reason, Reason::atomic_length);
}

TEST_F(RequesterTest, AMessageWithABadSgeIsItsOwnErrorAndReachesNobody) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  SendWork bad = send(1);
  a.sges[0].lkey.value ^= 1;
  ASSERT_TRUE(a.post(bad).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, local_protection_error}));
  EXPECT_EQ(at_a[0].reason, Reason::local_key_unknown);
  EXPECT_THAT(at_b, IsEmpty());
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
}

TEST_F(RequesterTest, AFencedMessageWaitsForThoseBeforeIt) {
  bring_both();
  for (uint64_t id = 21; id <= 22; ++id) ASSERT_TRUE(receive(id).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  SendWork fenced = send(2);
  fenced.fence = true;
  ASSERT_TRUE(a.post(fenced).ok());
  EXPECT_EQ(poll_b().size(), 1u);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  EXPECT_EQ(poll_b().size(), 1u);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
}

TEST_F(RequesterTest, TheDataOfAWriteIsThereBeforeItsNotice) {
  bring_both();
  ASSERT_TRUE(b.qp->post_receive({21, {}}).ok());
  ASSERT_TRUE(a.post(write_with_imm(1, 100)).ok());
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 100, b.memory.begin()));
  const auto noticed = poll_b();
  ASSERT_THAT(outcomes(noticed), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(noticed[0].opcode, CompletionOpcode::receive_rdma_with_imm);
  EXPECT_EQ(noticed[0].byte_length, 100u);
  EXPECT_EQ(noticed[0].immediate, 0x11223344u);
  EXPECT_EQ(noticed[0].flags, completion_flag::kImmediate);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(RequesterTest, UnsignaledMessagesAreCoveredByTheNextSignaledOne) {
  bring_both();
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t id = 0; id < 16; ++id) {
      ASSERT_TRUE(receive(id).ok());
      SendWork work = send(id);
      work.signaled = id == 15;
      ASSERT_TRUE(a.post(work).ok()) << "no room in round " << round;
    }
    EXPECT_EQ(a.post(send(99)).error, ENOMEM);
    at_a.clear();
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{15, success}));
  }
}

// ---- no receive ----

struct RequesterWithoutReceive : RequesterTest {
  void begin(uint8_t rnr_retry) {
    bring(*b.qp, b_attributes());
    QueuePairAttributes attributes = a_attributes();
    attributes.rnr_retry = rnr_retry;
    bring(*a.qp, attributes);
  }
};

TEST_F(RequesterWithoutReceive, NoRetriesEndAtOnce) {
  begin(0);
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, receiver_not_ready_exceeded}, Outcome{2, flushed}));
  EXPECT_EQ(completions[0].reason, Reason::remote_no_receive);
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  EXPECT_THAT(events_of(b), IsEmpty());
}

TEST_F(RequesterWithoutReceive, EachRetryWaitsAsLongAsTheReceiverAsks) {
  begin(3);
  ASSERT_TRUE(a.post(send(1)).ok());
  pass(kReceiverPause * 3 + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, receiver_not_ready_exceeded}));
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

// IBTA volume 1, table 45, in units of 10 us.
TEST_F(RequesterWithoutReceive, EachTimerThatAReceiverMayAskForIsThatOfTheTable) {
  constexpr int64_t kTimers[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                   48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                   2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (uint8_t timer = 0; timer < std::size(kTimers); ++timer)
    for (const uint8_t retries : {1, 6}) {
      SCOPED_TRACE(std::to_string(timer) + ", " + std::to_string(retries) + " retries");
      remake(a, QueuePairType::rc);
      remake(b, QueuePairType::rc);
      QueuePairAttributes theirs = b_attributes(), ours = a_attributes();
      theirs.min_rnr_timer = timer;
      ours.rnr_retry = retries;
      bring(*b.qp, theirs);
      bring(*a.qp, ours);
      ASSERT_TRUE(a.post(send(1)).ok());
      pass(Duration::nanoseconds(kTimers[timer] * 10'000 * retries - 1));
      EXPECT_THAT(poll_a(), IsEmpty());
      pass(kTick);
      EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, receiver_not_ready_exceeded}));
    }
}

TEST_F(RequesterWithoutReceive, SevenIsForEver) {
  begin(7);
  ASSERT_TRUE(a.post(send(1)).ok());
  for (int day = 0; day < 3; ++day) {
    pass(Duration::milliseconds(24 * 3600 * 1000));
    settle();
    EXPECT_THAT(at_a, IsEmpty());
  }
  ASSERT_TRUE(receive(21).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
}

TEST_F(RequesterWithoutReceive, AReceiveThatComesInTimeIsTakenAndTheNextWaitHasItsWholeTime) {
  begin(3);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(a.post(send(id)).ok());
    pass(kReceiverPause * 3 + Duration::nanoseconds(-1));
    settle();
    ASSERT_TRUE(receive(20 + id).ok());
    settle();
  }
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}, Outcome{23, success}));
}

TEST_F(RequesterWithoutReceive, TheEngineEndsTheWaitWhenNobodyPolls) {
  begin(3);
  ASSERT_TRUE(a.post(send(1)).ok());
  pass(kReceiverPause * 3);
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::none);
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(RequesterWithoutReceive, AReceivePostedInInitIsTaken) {
  bring(*b.qp, b_attributes(), QueuePairState::init);
  ASSERT_TRUE(receive(21).ok());
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(RequesterWithoutReceive, TheDataOfAWriteMayLandButItsNoticeWaits) {
  begin(1);
  ASSERT_TRUE(a.post(write_with_imm(1, 100)).ok());
  settle();
  EXPECT_THAT(at_a, IsEmpty());
  pass(kReceiverPause);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, receiver_not_ready_exceeded}));
}

// ---- a peer that is not there ----

TEST_F(RequesterTest, AnUnknownPeerHasASecondMoreToShowItself) {
  bring(*a.qp, message_attributes(Qpn::of(Slot{0x77}, 1)));
  ASSERT_TRUE(a.post(send(1)).ok());
  pass(kIntroduction + kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, retry_exceeded}));
  EXPECT_EQ(completions[0].reason, Reason::peer_unknown);
}

TEST_F(RequesterTest, TheWaitForAnUnknownPeerBeginsWithTheAgentsAnswer) {
  a.side.process.answer(false);
  bring(*a.qp, message_attributes(Qpn::of(Slot{0x77}, 1)));
  ASSERT_TRUE(a.post(send(1)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kIntroduction * 20);
  EXPECT_THAT(poll_a(), IsEmpty());
  a.side.process.peers().nobody_owns(Slot{0x77});
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kIntroduction + kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
}

TEST_F(RequesterTest, TheWaitForAPeerThatIsNotReadyBeginsWhenItIsKnown) {
  End late(0x50);
  bring(*late.qp, message_attributes(a.qp->qpn()), QueuePairState::init);
  bring(*a.qp, message_attributes(late.qp->qpn()));
  ASSERT_TRUE(a.post(a.work(late, SendOpcode::rdma_write, 1, 8)).ok());
  pass(kIntroduction);
  EXPECT_THAT(poll_a(), IsEmpty());
  a.side.process.meet(late.side.process);
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kPatience + Duration::nanoseconds(-1));
  EXPECT_THAT(poll_a(), IsEmpty());
  pass(kTick);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, retry_exceeded}));
  EXPECT_EQ(completions[0].reason, Reason::peer_not_ready);
}

TEST_F(RequesterTest, MessagesUnderWayToAPeerThatDiesFailAtOnce) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(receive(22).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  a_learns_that_b_died();
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, retry_exceeded}, Outcome{2, flushed}));
  EXPECT_EQ(completions[0].reason, Reason::peer_dead);
}

// One poll may take many completions.
struct RequesterOfAPeerThatDied : RequesterTest {
  void answer_one_of_two_and_die() {
    bring_both();
    ASSERT_TRUE(receive(21).ok());
    ASSERT_TRUE(a.post(send(1)).ok());
    poll_b();
    ASSERT_TRUE(a.post(send(2)).ok());
    a_learns_that_b_died();
  }
};

TEST_F(RequesterOfAPeerThatDied, TheErrorComesAfterTheLastAnswersWereTaken) {
  answer_one_of_two_and_die();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, retry_exceeded}));
}

TEST_F(RequesterOfAPeerThatDied, TheErrorWaitsUntilItsAnswersToOthersWereRead) {
  bring_both();
  a.side.process.peers().mark_dead(b.side.process.adapter().incarnation());
  ASSERT_TRUE(a.post(write(1)).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  a_learns_that_b_died();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
}

TEST_F(RequesterOfAPeerThatDied, NobodyTakesThemForLong) {
  answer_one_of_two_and_die();
  a.side.device.carry_on(a.side.clock.now());
  EXPECT_EQ(a.qp->state(), QueuePairState::rts);
  pass(Duration::milliseconds(100));
  a.side.device.carry_on(a.side.clock.now());
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(RequesterTest, AMessageToAPeerThatIsDestroyedMeanwhileTimesOut) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  b.qp.reset();
  settle();
  EXPECT_THAT(at_a, IsEmpty());
  pass(kPatience);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, retry_exceeded}));
  EXPECT_EQ(completions[0].reason, Reason::peer_not_ready);
}

TEST_F(RequesterTest, MessagesUnderWayToAPeerThatIsResetAndComesBackArriveOnceAndInOrder) {
  bring_both();
  for (uint64_t id = 21; id <= 24; ++id) ASSERT_TRUE(receive(id).ok());
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(a.post(send(id)).ok());
  settle();
  for (uint64_t id = 3; id <= 5; ++id) ASSERT_TRUE(a.post(send(id, static_cast<uint32_t>(id))).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  settle();
  bring(*b.qp, b_attributes());
  // As many as the messages of the time before have used.
  for (uint64_t id = 31; id <= 32; ++id) ASSERT_TRUE(receive(id).ok());
  settle();
  ASSERT_TRUE(receive(33).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success},
                                          Outcome{4, success}, Outcome{5, success}));
  ASSERT_EQ(at_b.size(), 5u);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(at_b[i].byte_length, i + 1);
}

TEST_F(RequesterTest, WhatWasSentBeforeAResetReachesNobodyAfterIt) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(1, 5)).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(2, 6)).ok());
  settle();
  ASSERT_EQ(at_b.size(), 1u);
  EXPECT_EQ(at_b[0].byte_length, 6u);
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{2, success}));
}

TEST_F(RequesterTest, AfterAResetTheReceiversOfTheOtherEndAreCountedAnew) {
  bring_both();
  for (uint64_t id = 21; id <= 22; ++id) ASSERT_TRUE(receive(id).ok());
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(a.post(send(id)).ok());
  settle();
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(3)).ok());
  settle();
  pass(kReceiverPause * 3);
  settle();
  ASSERT_EQ(at_a.size(), 3u);
  EXPECT_EQ(at_a[2].status, receiver_not_ready_exceeded) << "it is retried without end";
}

TEST_F(RequesterTest, AMessageThatIsFetchedWhenItsSenderIsResetIsNotReceived) {
  bring_both();
  ASSERT_TRUE(receive(21, 1'500'000).ok());
  ASSERT_TRUE(a.post(send(1, 1'200'000)).ok());
  EXPECT_THAT(poll_b(), IsEmpty()) << "the first slice";
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  settle();
  EXPECT_THAT(at_b, IsEmpty());
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(2, kLong)).ok());
  settle();
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(at_b[0].byte_length, kLong);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + kLong, received(0)));
}

// ---- draining ----

struct RequesterDraining : RequesterTest {
  Status drain() {
    QueuePairAttributes attributes;
    attributes.notify_drained = true;
    return modify(*a.qp, QueuePairState::sqd, attributes, attribute::kSqdNotify);
  }
};

TEST_F(RequesterDraining, MessagesUnderWayAreAnsweredFirst) {
  bring_both();
  for (uint64_t id = 21; id <= 23; ++id) ASSERT_TRUE(receive(id).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  ASSERT_TRUE(drain().ok());
  ASSERT_TRUE(a.post(send(3)).ok());
  EXPECT_THAT(events_of(a), IsEmpty());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}));
  EXPECT_THAT(events_of(a), ElementsAre(AsyncEventType::send_queue_drained));
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  settle();
  EXPECT_EQ(at_a.size(), 3u);
}

TEST_F(RequesterDraining, AMessageThatWaitsForAReceiveIsTriedOnAndItsFailureEndsTheDraining) {
  bring_both();
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  ASSERT_TRUE(drain().ok());
  EXPECT_THAT(events_of(a), IsEmpty());
  ASSERT_TRUE(receive(21).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(events_of(a), ElementsAre(AsyncEventType::send_queue_drained));
}

TEST_F(RequesterDraining, APeerThatDiesEndsTheDrainingInError) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(drain().ok());
  a_learns_that_b_died();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, retry_exceeded}));
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

// ---- unreliable ----

struct UnreliableRequester : testing::Test, MessageEnds {
  UnreliableRequester() : MessageEnds(QueuePairType::uc) {}
};

TEST_F(UnreliableRequester, AfterALostNoticeTheNextWriteIsAWriteAgain) {
  bring_both();
  SendWork noticed = write_with_imm(1, local::kSliceBytes);  // whose notice is left for the next turn
  noticed.signaled = false;
  ASSERT_TRUE(a.post(noticed).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  EXPECT_EQ(a.side.device.dropped_messages(), 1u);
  bring(*b.qp, b_attributes());
  std::fill(b.memory.begin(), b.memory.end(), 0);
  ASSERT_TRUE(a.post(write(2)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
  EXPECT_EQ(b.memory[0], a.memory[0]);
}

}  // namespace
}  // namespace verbatim::model
