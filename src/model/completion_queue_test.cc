#include "model/completion_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "model/completion_channel.h"
#include "model/queue_pair.h"
#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::kPatienceWithStrangers;
using testing_support::modify;
using testing_support::poll;
using testing_support::TestDevice;

struct CompletionQueueTest : testing::Test {
  TestDevice side{0x10};
  std::unique_ptr<CompletionQueue> cq = make(4);
  std::unique_ptr<QueuePair> source = make_source();
  std::unique_ptr<QueuePair> other = make_source();

  std::unique_ptr<CompletionQueue> make(int entries) {
    return CompletionQueue::create(side.device, side.events, this, entries).take();
  }
  std::unique_ptr<QueuePair> make_source() {
    return QueuePair::create(side.device, side.events,
                             {.pd = side.pd.get(),
                              .send_cq = cq.get(),
                              .receive_cq = cq.get(),
                              .capabilities = {.max_send_wr = 8, .max_send_sge = 1}})
        .take();
  }
  void push(uint64_t id, QueuePair& by) { cq->push({.work_id = id}, by, WorkQueueKind::send, id); }
  std::vector<uint64_t> poll_ids(int most = 100) {
    std::vector<uint64_t> ids;
    for (const Completion& completion : poll(*cq, most)) ids.push_back(completion.work_id);
    return ids;
  }

  // A queue pair with a request that waits for a peer nobody knows.
  void begin_waiting(QueuePair& queue_pair) {
    testing_support::connect(queue_pair, Qpn::of(Slot{0x99}, 1));
    ASSERT_TRUE(QueuePair::Posting(queue_pair).send({.signaled = true}).ok());
  }
};

TEST_F(CompletionQueueTest, HasTheNumberOfEntriesThatWasAskedFor) {
  EXPECT_EQ(cq->entries(), 4);
  const auto error = [&](int entries) {
    return CompletionQueue::create(side.device, side.events, nullptr, entries).error();
  };
  EXPECT_EQ(error(0), EINVAL);
  EXPECT_EQ(error(-1), EINVAL);
  EXPECT_EQ(error(side.device.attributes().max_cqe + 1), EINVAL);
  EXPECT_EQ(error(1), 0);
}

TEST_F(CompletionQueueTest, CountsAgainstTheDevicesLimit) {
  TestDevice small(0x20, {.max_cq = 1});
  auto only = small.make_cq();
  EXPECT_EQ(CompletionQueue::create(small.device, small.events, nullptr, 1).error(), ENOMEM);
  only.reset();
  EXPECT_TRUE(CompletionQueue::create(small.device, small.events, nullptr, 1).ok());
}

TEST_F(CompletionQueueTest, GivesCompletionsOutOldestFirstAndNoMoreThanAsked) {
  EXPECT_THAT(poll_ids(), IsEmpty());
  for (uint64_t id = 1; id <= 3; ++id) push(id, *source);
  EXPECT_THAT(poll_ids(0), IsEmpty());
  EXPECT_THAT(poll_ids(2), ElementsAre(1, 2));
  EXPECT_THAT(poll_ids(2), ElementsAre(3));
  EXPECT_THAT(poll_ids(), IsEmpty());
}

TEST_F(CompletionQueueTest, WrapsAroundForEver) {
  for (uint64_t id = 1; id <= 100; id += 3) {
    for (uint64_t i = 0; i < 3; ++i) push(id + i, *source);
    EXPECT_THAT(poll_ids(), ElementsAre(id, id + 1, id + 2));
  }
  EXPECT_FALSE(cq->broken());
}

TEST_F(CompletionQueueTest, ACompletionThatFindsNoRoomBreaksTheQueueAndSaysSoOnce) {
  for (uint64_t id = 1; id <= 4; ++id) push(id, *source);
  EXPECT_FALSE(cq->broken());
  push(5, *source);
  push(6, *source);
  EXPECT_TRUE(cq->broken());
  EXPECT_THAT(poll_ids(), ElementsAre(1, 2, 3, 4));
  const auto events = side.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::completion_queue_error);
  EXPECT_EQ(events[0].element, this);
}

TEST_F(CompletionQueueTest, ABrokenQueueTakesInNothingMore) {
  for (uint64_t id = 1; id <= 5; ++id) push(id, *source);
  EXPECT_THAT(poll_ids(1), ElementsAre(1));
  push(6, *source);
  EXPECT_THAT(poll_ids(), ElementsAre(2, 3, 4));
}

TEST_F(CompletionQueueTest, TheEngineLeadsTheUsersOfABrokenQueueToErr) {
  auto good = make(4);
  const auto connected = [&](CompletionQueue& send_cq, CompletionQueue& receive_cq) {
    auto queue_pair = QueuePair::create(side.device, side.events,
                                        {.pd = side.pd.get(),
                                         .send_cq = &send_cq,
                                         .receive_cq = &receive_cq,
                                         .capabilities = {.max_send_wr = 8, .max_send_sge = 1}})
                          .take();
    testing_support::connect(*queue_pair, Qpn::of(Slot{0x99}, 1));
    return queue_pair;
  };
  const auto sends = connected(*cq, *good), receives = connected(*good, *cq), neither = connected(*good, *good);
  const int woken = side.counting_waker.count();
  for (uint64_t id = 1; id <= 5; ++id) push(id, *source);
  EXPECT_EQ(side.counting_waker.count(), woken + 1);
  side.device.carry_on(side.clock.now());
  EXPECT_EQ(sends->state(), QueuePairState::err);
  EXPECT_EQ(receives->state(), QueuePairState::err);
  EXPECT_EQ(neither->state(), QueuePairState::rts);
}

TEST_F(CompletionQueueTest, WhoAsksAUserOfABrokenQueueIsNotFasterThanTheEngine) {
  testing_support::connect(*other, Qpn::of(Slot{0x99}, 1));
  for (uint64_t id = 1; id <= 5; ++id) push(id, *source);
  EXPECT_EQ(other->query().state, QueuePairState::err);
}

TEST_F(CompletionQueueTest, IgnoringOverrunTheNewestTakeTheOldestOnesPlaces) {
  auto lossy = CompletionQueue::create(side.device, side.events, this, 2, {.ignore_overrun = true}).take();
  for (uint64_t id = 1; id <= 5; ++id) lossy->push({.work_id = id}, *source, WorkQueueKind::send, id);
  EXPECT_FALSE(lossy->broken());
  EXPECT_TRUE(side.take_events().empty());
  std::vector<uint64_t> ids;
  lossy->poll(10, [&](const Completion& completion) { ids.push_back(completion.work_id); });
  EXPECT_THAT(ids, ElementsAre(4, 5));
}

TEST_F(CompletionQueueTest, ResizingKeepsWhatIsQueuedAndNoLess) {
  push(10, *source), push(11, *source);
  poll_ids();  // the ring now begins in its middle
  for (uint64_t id = 1; id <= 3; ++id) push(id, *source);
  EXPECT_EQ(cq->resize(2).error, EINVAL);
  EXPECT_EQ(cq->resize(0).error, EINVAL);
  EXPECT_EQ(cq->resize(side.device.attributes().max_cqe + 1).error, EINVAL);
  EXPECT_EQ(cq->entries(), 4);
  ASSERT_TRUE(cq->resize(3).ok());
  EXPECT_EQ(cq->entries(), 3);
  ASSERT_TRUE(cq->resize(6).ok());
  for (uint64_t id = 4; id <= 6; ++id) push(id, *source);
  EXPECT_FALSE(cq->broken());
  EXPECT_THAT(poll_ids(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(CompletionQueueTest, CompletionsSayWhenTheyWereAddedWhereThatIsAskedFor) {
  auto stamped = CompletionQueue::create(side.device, side.events, this, 2, {.timestamps = true}).take();
  const Instant before = side.clock.now();
  stamped->push({}, *source, WorkQueueKind::send, 1);
  side.clock.advance(Duration::microseconds(7));
  stamped->push({}, *source, WorkQueueKind::send, 2);
  side.clock.advance(Duration::microseconds(7));
  const std::vector<Completion> completions = poll(*stamped);
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].added_at, before);
  EXPECT_EQ(completions[1].added_at, before + Duration::microseconds(7));
}

// ---- completion events ----

struct NotifyingQueueTest : CompletionQueueTest {
  CompletionChannel channel{EventCounter::create().take()};
  int object = 0;
  std::unique_ptr<CompletionQueue> notifying =
      CompletionQueue::create(side.device, side.events, &object, 8, {.channel = &channel}).take();

  void add(uint64_t id = 1) { notifying->push({.work_id = id}, *source, WorkQueueKind::send, id); }
  int take_events() {
    int count = 0;
    while (channel.next().ok()) ++count, channel.acknowledge(&notifying->completion_acknowledgement());
    return count;
  }
};

TEST_F(NotifyingQueueTest, AnEventForTheFirstCompletionAfterArmingAndNoOther) {
  add();
  notifying->arm(false);
  EXPECT_EQ(take_events(), 0) << "for what was there before";
  add();
  const CompletionEvent event = channel.next().take();
  EXPECT_EQ(event.element, &object);
  EXPECT_EQ(event.account, &notifying->completion_acknowledgement());
  channel.acknowledge(event.account);
  add();
  EXPECT_EQ(take_events(), 0);
}

TEST_F(NotifyingQueueTest, PollingTakesNoArmingAway) {
  notifying->arm(false);
  EXPECT_EQ(poll(*notifying).size(), 0u);
  add();
  EXPECT_EQ(poll(*notifying).size(), 1u);
  EXPECT_EQ(take_events(), 1) << "an event with an empty queue is legal, none is not";
}

TEST_F(NotifyingQueueTest, DestructionForgetsEventsThatNobodyTook) {
  notifying->arm(false);
  add();
  notifying.reset();
  EXPECT_EQ(channel.next().error(), EAGAIN);
}

TEST_F(NotifyingQueueTest, TheEngineRaisesAnEventThatWasHeldBack) {
  notifying->moderate({10, Duration::milliseconds(5)});
  notifying->arm(false);
  const int woken = side.counting_waker.count();
  add();
  EXPECT_EQ(side.counting_waker.count(), woken + 1);
  EXPECT_EQ(side.device.carry_on(side.clock.now()), Backlog::waiting);
  EXPECT_EQ(take_events(), 0);
  side.clock.advance(Duration::milliseconds(5));
  EXPECT_EQ(side.device.carry_on(side.clock.now()), Backlog::none);
  EXPECT_EQ(take_events(), 1);
}

TEST_F(NotifyingQueueTest, ArmingLeavesTheWorkToTheEngine) {
  begin_waiting(*source);
  poll(*cq);
  side.clock.advance(kPatienceWithStrangers);
  const int woken = side.counting_waker.count();
  cq->arm(false);
  EXPECT_EQ(side.counting_waker.count(), woken + 1);
  EXPECT_EQ(cq->carry_on(side.clock.now()), Backlog::none) << "a lease keeps it away from who sleeps";
  EXPECT_EQ(source->state(), QueuePairState::err);
}

TEST_F(CompletionQueueTest, PurgingForgetsTheCompletionsOfThatQueuePairAlone) {
  EXPECT_THAT(poll_ids(), IsEmpty());
  push(10, *source), push(11, *source);
  poll_ids();  // the ring now begins in its middle
  push(1, *source), push(2, *other), push(3, *source), push(4, *other);
  cq->purge(*source);
  push(5, *other), push(6, *source);
  EXPECT_FALSE(cq->broken()) << "purged completions still take room";
  EXPECT_THAT(poll_ids(), ElementsAre(2, 4, 5, 6));
}

TEST_F(CompletionQueueTest, IsInUseWhileAQueuePairUsesIt) {
  EXPECT_TRUE(cq->in_use());
  source.reset();
  EXPECT_TRUE(cq->in_use());
  other.reset();
  EXPECT_FALSE(cq->in_use());
}

// ---- feeders ----

TEST_F(CompletionQueueTest, WakesTheEngineWhenTheFirstFeederComesAndNotForTheNext) {
  begin_waiting(*source);
  EXPECT_EQ(side.counting_waker.count(), 1);
  begin_waiting(*other);
  EXPECT_EQ(side.counting_waker.count(), 1);
  // Both give up; the next one is a first again.
  side.clock.advance(kPatienceWithStrangers);
  EXPECT_EQ(poll(*cq).size(), 2u);
  EXPECT_EQ(side.device.carry_on(side.clock.now()), Backlog::none);
  ASSERT_TRUE(modify(*source, QueuePairState::reset).ok());
  begin_waiting(*source);
  EXPECT_EQ(side.counting_waker.count(), 2);
}

TEST_F(CompletionQueueTest, MorePostsOfAFeederAreNoMoreFeeders) {
  begin_waiting(*source);
  ASSERT_TRUE(QueuePair::Posting(*source).send({.work_id = 2}).ok());
  EXPECT_EQ(side.counting_waker.count(), 1);
  side.clock.advance(kPatienceWithStrangers);
  EXPECT_EQ(poll(*cq).size(), 2u);
  EXPECT_EQ(side.device.carry_on(side.clock.now()), Backlog::none) << "somebody is still counted";
}

TEST_F(CompletionQueueTest, TheEngineLeavesAFreshlyPolledQueueAlone) {
  begin_waiting(*source);
  side.clock.advance(kPatienceWithStrangers);
  // Polled now: the request that gave up is completed by the poll, so a new one waits.
  EXPECT_EQ(poll(*cq).size(), 1u);
  ASSERT_TRUE(modify(*source, QueuePairState::reset).ok());
  begin_waiting(*source);
  const Instant polled = side.clock.now();
  poll(*cq);
  // Time for the request is over in the eyes of the queue pair, but who polls is at it.
  side.clock.advance(kPatienceWithStrangers);
  EXPECT_EQ(cq->carry_on(polled + Duration::nanoseconds(999'999)), Backlog::waiting);
  EXPECT_EQ(source->state(), QueuePairState::rts) << "the engine worked during the lease";
  EXPECT_EQ(cq->carry_on(polled + Duration::milliseconds(1)), Backlog::none);
  EXPECT_EQ(source->state(), QueuePairState::err);
}

TEST_F(CompletionQueueTest, PostingTakesALeaseToo) {
  begin_waiting(*source);
  const Instant posted = side.clock.now();
  side.clock.advance(kPatienceWithStrangers);
  EXPECT_EQ(cq->carry_on(posted + Duration::nanoseconds(999'999)), Backlog::waiting);
  EXPECT_EQ(source->state(), QueuePairState::rts);
}

TEST_F(CompletionQueueTest, WithoutFeedersThereIsNothingToCarryOn) {
  EXPECT_EQ(cq->carry_on(side.clock.now() + Duration::milliseconds(100)), Backlog::none);
}

TEST_F(CompletionQueueTest, ARemovedFeederIsNotCarriedOn) {
  begin_waiting(*source);
  cq->remove_feeder(*source);
  side.clock.advance(kPatienceWithStrangers);
  EXPECT_EQ(cq->carry_on(side.clock.now()), Backlog::none);
  EXPECT_EQ(source->state(), QueuePairState::rts);
}

TEST_F(CompletionQueueTest, ADestroyedQueuePairFeedsNoMore) {
  begin_waiting(*source);
  poll(*cq);
  source.reset();
  EXPECT_EQ(cq->carry_on(side.clock.now() + Duration::milliseconds(100)), Backlog::none);
  EXPECT_THAT(poll_ids(), IsEmpty());
}

TEST_F(CompletionQueueTest, PushersAndPollersMayWorkAtOnce) {
  constexpr uint64_t kEach = 5000;
  auto roomy = CompletionQueue::create(side.device, side.events, nullptr, 2 * kEach).take();
  std::vector<std::thread> pushers;
  for (QueuePair* by : {source.get(), other.get()})
    pushers.emplace_back([&, by] {
      for (uint64_t id = 1; id <= kEach; ++id)
        roomy->push({.work_id = id, .qpn = by->qpn()}, *by, WorkQueueKind::receive, id);
    });
  uint64_t next_of_source = 1, next_of_other = 1;
  while (next_of_source + next_of_other < 2 * kEach + 2)
    roomy->poll(7, [&](const Completion& completion) {
      uint64_t& next = completion.qpn == source->qpn() ? next_of_source : next_of_other;
      EXPECT_EQ(completion.work_id, next++);
    });
  for (std::thread& pusher : pushers) pusher.join();
  EXPECT_FALSE(roomy->broken());
}

}  // namespace
}  // namespace verbatim::model
