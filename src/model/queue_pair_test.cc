#include "model/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "support/on_processor.h"
#include "support/pause.h"
#include "support/queue_pair_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

constexpr uint32_t kSlice = local::kSliceBytes;

struct QueuePairTest : testing::Test, QueuePairEnds {};

// ---- posting and completions ----

TEST_F(QueuePairTest, AWriteIsInPlaceWhenPostingReturnsAndCompletes) {
  connect_both();
  ASSERT_TRUE(a.post(write(7, 100)).ok());
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 100, b.memory.begin()));
  EXPECT_EQ(b.memory[100], 0);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{7, success}));
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::rdma_write);
  EXPECT_EQ(completions[0].qpn, a.qp->qpn());
  EXPECT_EQ(completions[0].reason, Reason::none);
}

TEST_F(QueuePairTest, AReadBringsThePeersBytesAndItsLength) {
  connect_both();
  b.memory[3] = 0x99;
  ASSERT_TRUE(a.post(read(8, 16)).ok());
  EXPECT_EQ(a.memory[3], 0x99);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{8, success}));
  EXPECT_EQ(completions[0].opcode, CompletionOpcode::rdma_read);
  EXPECT_EQ(completions[0].byte_length, 16u);
}

TEST_F(QueuePairTest, TwoQueuePairsOfOneProcessReachEachOther) {
  auto second = a.make_qp();
  connect(*a.qp, second->qpn());
  connect(*second, a.qp->qpn());
  SendWork request = a.work(a, SendOpcode::rdma_write, 1, 8);
  request.remote_address += 4096;
  std::fill_n(a.memory.begin() + 4096, 8, 0);
  ASSERT_TRUE(a.post(request).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 8, a.memory.begin() + 4096));
}

TEST_F(QueuePairTest, OnlySignaledRequestsCompleteInSuccess) {
  connect_both();
  SendWork quiet = write(1);
  quiet.signaled = false;
  ASSERT_TRUE(a.post(quiet).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
}

TEST_F(QueuePairTest, WithSignalAllEveryRequestCompletes) {
  a.qp = a.make_qp({4, 4, 1, 1, 0}, true);
  connect_both();
  SendWork quiet = write(1);
  quiet.signaled = false;
  ASSERT_TRUE(a.post(quiet).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(QueuePairTest, AFullQueueHasRoomOnlyWhenCompletionsWereTaken) {
  connect_both();
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(a.post(write(id)).ok());
  EXPECT_EQ(a.post(write(5)).error, ENOMEM) << "all are done, but nobody polled";
  EXPECT_EQ(poll(*a.cq, 1).size(), 1u);
  EXPECT_TRUE(a.post(write(5)).ok());
  EXPECT_EQ(a.post(write(6)).error, ENOMEM);
  EXPECT_EQ(poll_a().size(), 4u);
  EXPECT_TRUE(a.post(write(6)).ok());
}

TEST_F(QueuePairTest, OneSignaledRequestFreesTheRoomOfThoseBeforeIt) {
  connect_both();
  for (uint64_t id = 1; id <= 4; ++id) {
    SendWork request = write(id);
    request.signaled = id == 4;
    ASSERT_TRUE(a.post(request).ok());
  }
  EXPECT_EQ(a.post(write(5)).error, ENOMEM);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{4, success}));
  for (uint64_t id = 5; id <= 8; ++id) EXPECT_TRUE(a.post(write(id)).ok());
}

TEST_F(QueuePairTest, RefusesRequestsThatDoNotFit) {
  connect_both();
  SendWork request = write(1);
  const std::vector<Sge> five(5, a.sges[0]);
  request.sges = five;
  EXPECT_EQ(a.post(request).error, EINVAL) << "too many SGEs";
  request = write(1, 65);
  request.inline_data = true;
  EXPECT_EQ(a.post(request).error, EINVAL) << "too much inline data";
  request = read(1, 8);
  request.inline_data = true;
  EXPECT_EQ(a.post(request).error, EINVAL) << "an inline read";
  EXPECT_THAT(poll_a(), IsEmpty());
}

TEST_F(QueuePairTest, RefusesToSendBeforeItIsReadyToSend) {
  EXPECT_EQ(a.post(write(1)).error, EINVAL);
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  EXPECT_EQ(a.post(write(1)).error, EINVAL);
  ASSERT_TRUE(to_rtr(*a.qp, b.qp->qpn()).ok());
  EXPECT_EQ(a.post(write(1)).error, EINVAL);
  ASSERT_TRUE(to_rts(*a.qp, b.qp->qpn()).ok());
  EXPECT_EQ(a.post(write(1)).error, 0);
}

TEST_F(QueuePairTest, ReceivesAreTakenInEveryStateButReset) {
  EXPECT_EQ(a.qp->post_receive({1, {}}).error, EINVAL);
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  EXPECT_EQ(a.qp->post_receive({1, {}}).error, 0);
  const std::vector<Sge> two(2);
  EXPECT_EQ(a.qp->post_receive({1, two}).error, EINVAL);
  for (uint64_t id = 2; id <= 4; ++id) EXPECT_EQ(a.qp->post_receive({id, {}}).error, 0);
  EXPECT_EQ(a.qp->post_receive({5, {}}).error, ENOMEM);
}

TEST_F(QueuePairTest, InlineDataIsTheCallersAgainAtOnce) {
  ASSERT_TRUE(to_init(*b.qp, a.qp->qpn()).ok());
  connect_a();
  uint64_t value = 0x1111;
  const Sge sge{reinterpret_cast<uint64_t>(&value), 8, {}};
  SendWork request = write(1);
  request.sges = {&sge, 1};
  request.inline_data = true;
  ASSERT_TRUE(a.post(request).ok());
  value = 0x2222;
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  uint64_t arrived;
  std::memcpy(&arrived, b.memory.data(), 8);
  EXPECT_EQ(arrived, 0x1111u);
}

// ---- long messages ----

TEST_F(QueuePairTest, PostingCopiesOneSliceAndPollingTheOthers) {
  connect_both();
  ASSERT_TRUE(a.post(write(1, 3 * kSlice)).ok());
  EXPECT_EQ(b.memory[kSlice - 1], a.memory[kSlice - 1]);
  EXPECT_EQ(b.memory[kSlice + 1], 0);
  EXPECT_THAT(poll_a(), IsEmpty());
  EXPECT_EQ(b.memory[2 * kSlice - 1], a.memory[2 * kSlice - 1]);
  EXPECT_EQ(b.memory[2 * kSlice + 1], 0);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 3 * kSlice, b.memory.begin()));
}

TEST_F(QueuePairTest, TheEngineFinishesWhatNobodyPolls) {
  connect_both();
  ASSERT_TRUE(a.post(write(1, 5 * kSlice)).ok());
  EXPECT_EQ(a.side.counting_waker.count(), 1);
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::waiting) << "who posts will poll";
  EXPECT_EQ(b.memory[kSlice + 1], 0);
  a.side.clock.advance(Duration::milliseconds(1));
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::none);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 5 * kSlice, b.memory.begin()));
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(QueuePairTest, TheEngineLooksAtItsOtherDutiesDuringALongMessage) {
  connect_both();
  constexpr uint32_t kHalf = 16 * kSlice;
  a.memory.resize(kHalf);
  a.region = a.side.register_memory(a.memory.data(), a.memory.size(), kEverything);
  b.memory.resize(2 * kHalf);
  b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything);
  SendWork request = write(1, kHalf);
  const std::vector<Sge> twice(2, a.sges[0]);
  request.sges = twice;
  request.length = 2 * kHalf;
  ASSERT_TRUE(a.post(request).ok());
  a.side.clock.advance(Duration::milliseconds(1));
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::working);
  EXPECT_EQ(a.side.device.carry_on(a.side.clock.now()), Backlog::none);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(QueuePairTest, ShortMessagesBehindALongOneKeepTheirOrder) {
  connect_both();
  ASSERT_TRUE(a.post(write(1, 2 * kSlice)).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  ASSERT_TRUE(a.post(read(3)).ok());
  std::vector<Outcome> all;
  while (all.size() < 3)
    for (const Outcome& outcome : outcomes(poll_a())) all.push_back(outcome);
  EXPECT_THAT(all, ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
}

// ---- threads ----

TEST_F(QueuePairTest, SeveralThreadsMayPostWhileOthersPollAndTheEngineWorks) {
  constexpr uint64_t kEach = 1000;
  a.qp = a.make_qp({16, 4, 1, 1, 0}, true);
  connect_both();
  std::vector<std::thread> posters;
  std::atomic<uint64_t> completed{0}, failed{0};
  const SendWork request = write(0, 16);
  for (int i = 0; i < 2; ++i)
    posters.emplace_back([&] {
      for (uint64_t posted = 0; posted < kEach;) {
        const Status status = a.post(request);
        if (status.error == ENOMEM) {
          std::this_thread::yield();
          continue;
        }
        ++posted;
        if (!status.ok()) failed.fetch_add(1);
      }
    });
  std::thread engine([&] {
    while (completed.load() < 2 * kEach) {
      a.side.clock.advance(Duration::milliseconds(1));
      a.side.device.carry_on(a.side.clock.now());
      std::this_thread::yield();
    }
  });
  while (completed.load() < 2 * kEach)
    a.cq->poll(8, [&](const Completion& completion) {
      completed.fetch_add(1);
      if (completion.status != success) failed.fetch_add(1);
    });
  for (std::thread& poster : posters) poster.join();
  engine.join();
  EXPECT_EQ(failed.load(), 0u);
}

// Room in the send queue is lost for ever if a completion of the time before a reset is taken after it.
TEST_F(QueuePairTest, AResetWhileAnotherThreadPollsLeavesAnEmptyQueue) {
  connect_b();
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    const OnProcessor second(1);
    RandomPause pause(1);
    // Slowly, so that the reset finds it between two completions.
    while (!stop.load()) a.cq->poll(8, [&](const Completion&) { pause(2000); });
  });
  const OnProcessor first(0);
  int full = 0;
  for (int round = 0; round < 3000; ++round) {
    connect_a();
    for (uint64_t id = 1; id <= 4; ++id) full += a.post(write(id)).error == ENOMEM;
    ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  }
  EXPECT_EQ(full, 0);
  stop.store(true);
  poller.join();
}

TEST_F(QueuePairTest, QueuePairsComeAndGoWhileTheEngineAndAPollerWork) {
  connect_b();
  std::atomic<bool> stop{false};
  std::thread engine([&] {
    while (!stop.load()) {
      a.side.clock.advance(Duration::milliseconds(1));
      a.side.device.carry_on(a.side.clock.now());
      for (const auto& peer : a.side.process.peers().known()) a.side.device.take_notices(*peer);
    }
  });
  std::thread poller([&] {
    while (!stop.load()) poll(*a.cq);
  });
  for (int round = 0; round < 200; ++round) {
    a.qp = a.make_qp();
    connect(*a.qp, b.qp->qpn());
    for (uint64_t id = 1; id <= 4; ++id) a.post(write(id)).ok();
  }
  stop.store(true);
  engine.join();
  poller.join();
}

}  // namespace
}  // namespace verbatim::model
