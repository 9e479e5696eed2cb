// Receives that the messages of several queue pairs share, and XRC, whose messages name the queue.
#include "model/shared_receive_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "model/xrc_domain.h"
#include "support/message_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;
using enum AsyncEventType;

struct SharedReceives : testing::Test, MessageEnds {
  explicit SharedReceives(QueuePairType type = QueuePairType::rc) : MessageEnds(type, true) {}
  ~SharedReceives() override { b.qp.reset(); }
};

TEST_F(SharedReceives, HoldToTheirLimits) {
  const auto error = [&](uint32_t max_wr, uint32_t max_sge, uint32_t limit = 0) {
    return SharedReceiveQueue::create(b.side.device, b.side.events,
                                      {.pd = *b.side.pd, .max_wr = max_wr, .max_sge = max_sge, .limit = limit})
        .error();
  };
  const DeviceAttributes& limits = b.side.device.attributes();
  EXPECT_EQ(error(1, 1), 0);
  EXPECT_EQ(error(0, 1), EINVAL);
  EXPECT_EQ(error(limits.max_srq_wr + 1, 1), EINVAL);
  EXPECT_EQ(error(1, limits.max_srq_sge + 1), EINVAL);
  EXPECT_EQ(error(1, 1, 2), EINVAL);
  for (uint64_t id = 0; id < 16; ++id) ASSERT_TRUE(receive(id).ok());
  EXPECT_EQ(receive(16).error, ENOMEM);
  EXPECT_EQ(b.qp->post_receive({17, {}}).error, EINVAL) << "the queue pair has none of its own";
}

TEST_F(SharedReceives, AreTakenInTheOrderOfTheMessagesOfAll) {
  bring_both();
  auto second_a = a.make_qp({16, 0, 1, 0, 0});
  auto second_b =
      QueuePair::create(
          b.side.device, b.side.events,
          {.pd = b.side.pd.get(), .send_cq = b.cq.get(), .receive_cq = b.cq.get(), .shared_receives = shared.get()})
          .take();
  bring(*second_b, message_attributes(second_a->qpn()));
  bring(*second_a, message_attributes(second_b->qpn()));
  for (uint64_t id = 21; id <= 23; ++id) ASSERT_TRUE(receive(id).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(QueuePair::Posting(*second_a).send(send(2)).ok());
  ASSERT_TRUE(a.post(send(3)).ok());
  settle();
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}, Outcome{23, success}));
  EXPECT_EQ(at_b[0].qpn, b.qp->qpn());
  EXPECT_EQ(at_b[1].qpn, second_b->qpn());
  EXPECT_EQ(at_b[2].qpn, b.qp->qpn());
}

TEST_F(SharedReceives, WhenEmptyTheSenderWaits) {
  bring_both();
  ASSERT_TRUE(a.post(send(1)).ok());
  settle();
  pass(kReceiverPause * 3 + Duration::nanoseconds(-1));
  settle();
  EXPECT_THAT(at_a, IsEmpty());
  ASSERT_TRUE(receive(21).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  ASSERT_TRUE(a.post(send(2)).ok());
  pass(kReceiverPause * 3);
  settle();
  EXPECT_EQ(at_a.back().status, receiver_not_ready_exceeded);
}

TEST_F(SharedReceives, MessagesThatShareTooFewAreAllServedInTheEnd) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(a.post(send(id, static_cast<uint32_t>(id))).ok());
  for (uint64_t id = 22; id <= 25; ++id) {
    settle();
    ASSERT_TRUE(receive(id).ok());
  }
  settle();
  ASSERT_EQ(at_a.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(at_a[i].status, success);
    EXPECT_EQ(at_b[i].byte_length, i + 1);
  }
}

TEST_F(SharedReceives, TheLimitIsSaidOnceWhenFewerAreLeft) {
  bring_both();
  for (uint64_t id = 21; id <= 24; ++id) ASSERT_TRUE(receive(id).ok());
  ASSERT_TRUE(shared->set_limit(3).ok());
  EXPECT_EQ(shared->set_limit(17).error, EINVAL);
  EXPECT_THAT(events_of(b), IsEmpty());
  ASSERT_TRUE(a.post(send(1)).ok());
  settle();
  EXPECT_THAT(events_of(b), IsEmpty()) << "three are left";
  EXPECT_EQ(shared->limit(), 3u);
  ASSERT_TRUE(a.post(send(2)).ok());
  ASSERT_TRUE(a.post(send(3)).ok());
  settle();
  const auto events = b.side.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, shared_receive_queue_limit);
  EXPECT_EQ(events[0].element, &shared);
  EXPECT_EQ(shared->limit(), 0u);
}

TEST_F(SharedReceives, AQueuePairInErrTakesNoMoreOfThemAndSaysSo) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::err).ok());
  EXPECT_THAT(events_of(b), ElementsAre(last_work_request_reached));
  EXPECT_THAT(poll_b(), IsEmpty()) << "the receive is the shared queue's, not the queue pair's";
}

TEST_F(SharedReceives, AReceiveThatWasTakenIsFlushedWithItsQueuePair) {
  bring_both();
  ASSERT_TRUE(receive(21, 1'500'000).ok());
  ASSERT_TRUE(a.post(send(1, 1'200'000)).ok());
  EXPECT_THAT(poll_b(), IsEmpty()) << "the first slice";
  ASSERT_TRUE(modify(*b.qp, QueuePairState::err).ok());
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{21, flushed}));
}

struct SharedReceivesOfUnreliable : SharedReceives {
  SharedReceivesOfUnreliable() : SharedReceives(QueuePairType::uc) {}
};

TEST_F(SharedReceivesOfUnreliable, AMessageThatIsTooLongEndsTheReceiverForWhatWasTakenIsGone) {
  bring_both();
  ASSERT_TRUE(receive(21, 100).ok());
  ASSERT_TRUE(a.post(send(1, 101)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, local_length_error}));
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
}

// ---- XRC ----

struct ExtendedReliable : testing::Test, MessageEnds {
  XrcDomain domain, other_domain;
  std::unique_ptr<CompletionQueue> shared_cq = b.side.make_cq();
  std::unique_ptr<SharedReceiveQueue> first = make(domain), second = make(domain), foreign = make(other_domain);

  ExtendedReliable() {
    a.qp.reset();
    b.qp.reset();
    remake(a, QueuePairType::xrc_send);
    b.qp = QueuePair::create(b.side.device, b.side.events,
                             {.type = QueuePairType::xrc_receive, .xrc_domain = &domain, .handle = &b})
               .take();
    bring_both();
  }
  ~ExtendedReliable() override { b.qp.reset(); }
  std::unique_ptr<SharedReceiveQueue> make(XrcDomain& of) {
    return SharedReceiveQueue::create(
               b.side.device, b.side.events,
               {.pd = *b.side.pd, .max_wr = 16, .max_sge = 1, .cq = shared_cq.get(), .xrc_domain = &of})
        .take();
  }
  SendWork send_to(const SharedReceiveQueue& queue, uint64_t id, uint32_t length = 8) {
    SendWork work = send(id, length);
    work.shared_queue = queue.number();
    return work;
  }
  void receive_in(SharedReceiveQueue& queue, uint64_t id, uint32_t length = kReceiveBytes) {
    const Sge sge = receive_sge(0, length);
    ASSERT_TRUE(queue.post({id, {&sge, 1}}).ok());
  }
  std::vector<Completion> poll_shared() {
    wake_b();
    return poll(*shared_cq);
  }
};

TEST_F(ExtendedReliable, EachMessageNamesItsQueue) {
  receive_in(*first, 21);
  receive_in(*second, 22);
  ASSERT_TRUE(a.post(send_to(*second, 1)).ok());
  ASSERT_TRUE(a.post(send_to(*first, 2)).ok());
  const auto completions = poll_shared();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{22, success}, Outcome{21, success}));
  EXPECT_EQ(completions[0].qpn, b.qp->qpn());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}, Outcome{2, success}));
}

TEST_F(ExtendedReliable, AnotherDomainsQueueIsInvalid) {
  receive_in(*foreign, 21);
  ASSERT_TRUE(a.post(send_to(*foreign, 1)).ok());
  EXPECT_THAT(poll_shared(), IsEmpty());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, remote_invalid_request}));
  EXPECT_EQ(completions[0].reason, Reason::remote_no_shared_queue);
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
  EXPECT_THAT(events_of(b), ElementsAre(queue_pair_request_error));
}

TEST_F(ExtendedReliable, ANumberOfNoQueueIsInvalid) {
  for (const uint32_t number : {0u, 999u, 0xffffffffu}) {
    if (a.qp->state() == QueuePairState::err) {
      ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
      ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
      bring_both();
    }
    SendWork work = send_to(*first, 1);
    work.shared_queue = number;
    ASSERT_TRUE(a.post(work).ok());
    poll_shared();
    const auto completions = poll_a();
    ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, remote_invalid_request})) << number;
  }
}

TEST_F(ExtendedReliable, AnEmptyQueueIsWaitedForAsLongAsAnother) {
  ASSERT_TRUE(a.post(send_to(*first, 1)).ok());
  pass(kReceiverPause * 3);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, receiver_not_ready_exceeded}));
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
}

// The receiver is of no PD: that of the queue counts.
TEST_F(ExtendedReliable, AnInvalidationNamesAWindowOfTheQueuesPd) {
  const MemoryKey window = b.side.device.windows().allocate(b.side.pd->id(), WindowType::two).take();
  receive_in(*first, 21);
  SendWork work = send_to(*first, 1);
  work.opcode = SendOpcode::send_with_invalidate;
  work.immediate = window.value;
  ASSERT_TRUE(a.post(work).ok());
  const auto completions = poll_shared();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(completions[0].immediate, window.value);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  b.side.device.windows().release(window);
}

TEST_F(ExtendedReliable, AQueueThatGoesInTheMiddleOfAMessageTakesItsReceiveAlong) {
  receive_in(*first, 21, 1'500'000);
  ASSERT_TRUE(a.post(send_to(*first, 1, 1'200'000)).ok());
  EXPECT_THAT(poll_shared(), IsEmpty()) << "the first slice";
  first.reset();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(poll_shared(), IsEmpty());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, remote_invalid_request}));
}

}  // namespace
}  // namespace verbatim::model
