// What ends a queue pair in ERR, on either side; modify_qp; what a queue pair leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "model/shared_receive_queue.h"
#include "support/queue_pair_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

struct QueuePairErrors : testing::Test, QueuePairEnds {};

TEST_F(QueuePairErrors, EverythingAfterTheFirstErrorIsFlushedInOrder) {
  connect_both();
  ASSERT_TRUE(a.qp->post_receive({7, {}}).ok());
  ASSERT_TRUE(a.qp->post_receive({8, {}}).ok());
  {
    QueuePair::Posting posting(*a.qp);
    ASSERT_TRUE(posting.send(write(1)).ok());
    ASSERT_TRUE(posting.send(bad_write(2)).ok());
    SendWork quiet = write(3);
    quiet.signaled = false;
    ASSERT_TRUE(posting.send(quiet).ok());
  }
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, success}, Outcome{2, remote_access_error},
                                                 Outcome{3, flushed}, Outcome{7, flushed}, Outcome{8, flushed}));
  EXPECT_EQ(completions[1].reason, Reason::remote_key_unknown);
  ASSERT_TRUE(a.post(write(4)).ok());
  ASSERT_TRUE(a.qp->post_receive({9, {}}).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{4, flushed}, Outcome{9, flushed}));
}

TEST_F(QueuePairErrors, AnUnsignaledRequestThatFailsCompletes) {
  connect_both();
  SendWork quiet = bad_write(1);
  quiet.signaled = false;
  ASSERT_TRUE(a.post(quiet).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, remote_access_error}));
}

TEST_F(QueuePairErrors, AMessageLongerThanThePortCarriesIsALengthError) {
  connect_both();
  SendWork request = write(1);
  const std::vector<Sge> sges(2, {a.sges[0].address, 0x7fffffff, a.sges[0].lkey});
  request.sges = sges;
  request.length = uint64_t{a.side.device.message_limit()} + 1;
  ASSERT_TRUE(a.post(request).ok());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, local_length_error}));
  EXPECT_EQ(completions[0].reason, Reason::message_too_long);
}

TEST_F(QueuePairErrors, AReadWithoutInitiatorDepthIsAnOperationError) {
  QueuePairAttributes attributes = good_attributes(b.qp->qpn());
  attributes.initiator_depth = 0;
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  ASSERT_TRUE(to_rtr(*a.qp, b.qp->qpn()).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts, attributes, kRtsMask).ok());
  connect_b();
  ASSERT_TRUE(a.post(write(1)).ok());
  ASSERT_TRUE(a.post(read(2)).ok());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, success}, Outcome{2, local_qp_operation_error}));
  EXPECT_EQ(completions[1].reason, Reason::no_read_depth);
}

TEST_F(QueuePairErrors, ABrokenCompletionQueueEndsItsQueuePairs) {
  a.qp.reset();
  a.cq = a.side.make_cq(2);
  a.qp = a.make_qp();
  connect_both();
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(a.post(write(id)).ok());
  EXPECT_TRUE(a.cq->broken());
  ASSERT_TRUE(a.qp->post_receive({9, {}}).ok());
  a.post(write(4)).ok();
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(QueuePairErrors, ABrokenCompletionQueueAlsoEndsOneThatOnlyFailedToSend) {
  a.qp.reset();
  a.cq = a.side.make_cq(1);
  QueuePairSetup setup{.type = QueuePairType::uc,
                       .pd = a.side.pd.get(),
                       .send_cq = a.cq.get(),
                       .receive_cq = a.cq.get(),
                       .capabilities = {4, 4, 1, 1, 0}};
  a.qp = QueuePair::create(a.side.device, a.side.events, setup).take();
  const QueuePairAttributes attributes = good_attributes(b.qp->qpn());
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rtr, attributes,
                     attribute::kAddress | attribute::kPathMtu | attribute::kDestination | attribute::kReceivePsn)
                  .ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts, attributes, attribute::kSendPsn).ok());
  SendWork bad = write(1);
  a.sges[0].lkey.value ^= 1;
  ASSERT_TRUE(a.post(bad).ok());
  ASSERT_EQ(a.qp->state(), QueuePairState::sqe);
  ASSERT_TRUE(a.post(write(2)).ok());
  ASSERT_TRUE(a.cq->broken());
  a.qp->on_broken_queue();
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(QueuePairErrors, TheLastRequestOfASharedQueueIsReachedOnce) {
  const auto shared =
      SharedReceiveQueue::create(a.side.device, a.side.events, {.pd = *a.side.pd, .max_wr = 1, .max_sge = 1}).take();
  QueuePairSetup setup{.pd = a.side.pd.get(),
                       .send_cq = a.cq.get(),
                       .receive_cq = a.cq.get(),
                       .shared_receives = shared.get(),
                       .capabilities = {4, 0, 1, 0, 0},
                       .handle = &a};
  a.qp = QueuePair::create(a.side.device, a.side.events, setup).take();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(modify(*a.qp, QueuePairState::err).ok());
  const auto events = a.side.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::last_work_request_reached);
  EXPECT_EQ(events[0].element, &a);
  a.qp.reset();
}

TEST_F(QueuePairErrors, ErrByModifyFlushes) {
  connect_both();
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  ASSERT_TRUE(a.post(write(1)).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::err).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, flushed}));
}

// ---- notices: errors that the requester found here ----

TEST_F(QueuePairErrors, ThePeersErrorIsOursToo) {
  connect_both();
  ASSERT_TRUE(b.qp->post_receive({5, {}}).ok());
  ASSERT_TRUE(a.post(bad_write(1)).ok());
  EXPECT_EQ(b.qp->state(), QueuePairState::rts) << "before it has run";
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
  EXPECT_THAT(outcomes(poll(*b.cq)), ElementsAre(Outcome{5, flushed}));
  const auto events = b.side.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::queue_pair_access_error);
  EXPECT_EQ(events[0].element, &b);
}

TEST_F(QueuePairErrors, TheEventSaysWhatKindOfErrorItWas) {
  const std::pair<local::NoticeKind, AsyncEventType> kinds[] = {
      {local::NoticeKind::access_error, AsyncEventType::queue_pair_access_error},
      {local::NoticeKind::invalid_request, AsyncEventType::queue_pair_request_error},
      {local::NoticeKind::operation_error, AsyncEventType::queue_pair_fatal},
      {static_cast<local::NoticeKind>(77), AsyncEventType::queue_pair_fatal}};
  for (const auto& [kind, type] : kinds) {
    ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
    connect_b();
    a.side.process.adapter().leave_notice({b.qp->qpn(), a.qp->qpn(), static_cast<uint32_t>(kind), b.stream()});
    b_takes_notices();
    const auto events = b.side.take_events();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].type, type);
  }
}

TEST_F(QueuePairErrors, OnlyTheOwnerOfThePeersSlotMaySpeakForIt) {
  connect_both();
  End stranger(0x30);
  stranger.side.process.allocate_qpn();
  introduce(b.side.process, stranger.side.process);
  stranger.side.process.adapter().leave_notice({b.qp->qpn(), a.qp->qpn(), 1, b.stream()});
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  EXPECT_THAT(b.side.take_events(), IsEmpty());
}

TEST_F(QueuePairErrors, ANoticeThatArrivesBeforeItsWriterWasIntroducedIsKept) {
  // b has not been told whose slot a's is.
  End late(0x50);
  connect(*b.qp, late.qp->qpn());
  const auto peer = late.side.process.as_peer();
  late.side.process.adapter().leave_notice({b.qp->qpn(), late.qp->qpn(), 1, b.stream()});
  b.side.device.take_notices(*peer);
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  b.side.process.peers().add(peer, late.side.process.adapter().slots());
  b.side.device.take_notices(*peer);
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
  b.side.process.peers().remove(peer->incarnation());
}

TEST_F(QueuePairErrors, ANoticeThatNamesAnotherQueuePairIsNoneOfOurs) {
  connect_both();
  auto second = a.make_qp();
  local::Adapter& adapter = a.side.process.adapter();
  adapter.leave_notice({b.qp->qpn(), second->qpn(), 1, b.stream()});
  adapter.leave_notice({Qpn{b.qp->qpn().value ^ 1}, a.qp->qpn(), 1, b.stream()});
  adapter.leave_notice({Qpn{}, a.qp->qpn(), 1, b.stream()});
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
}

TEST_F(QueuePairErrors, NoticesDoNotConcernAQueuePairThatCannotBeReached) {
  ASSERT_TRUE(to_init(*b.qp, a.qp->qpn()).ok());
  a.side.process.adapter().leave_notice({b.qp->qpn(), a.qp->qpn(), 1, b.stream()});
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::init);
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  a.side.process.adapter().leave_notice({b.qp->qpn(), a.qp->qpn(), 1, b.stream()});
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::reset);
}

// The requester's program may hear of its error, and tell the target's to connect anew, before that one's engine runs.
TEST_F(QueuePairErrors, ANoticeOfTheTimeBeforeAResetIsOfNoConcern) {
  connect_both();
  ASSERT_TRUE(a.post(bad_write(1)).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  connect_b();
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  EXPECT_THAT(b.side.take_events(), IsEmpty());
}

TEST_F(QueuePairErrors, APeerReadyToReceiveIsConcerned) {
  ASSERT_TRUE(to_init(*b.qp, a.qp->qpn()).ok());
  ASSERT_TRUE(to_rtr(*b.qp, a.qp->qpn()).ok());
  a.side.process.adapter().leave_notice({b.qp->qpn(), a.qp->qpn(), 1, b.stream()});
  b_takes_notices();
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
}

// ---- modify ----

struct QueuePairModify : QueuePairErrors {
  QueuePairAttributes attributes = good_attributes(b.qp->qpn());
};

TEST_F(QueuePairModify, RefusesValuesOutsideTheDevicesRange) {
  const auto refused_at_init = [&](std::function<void(QueuePairAttributes&)> spoil) {
    QueuePairAttributes wrong = attributes;
    spoil(wrong);
    return modify(*a.qp, QueuePairState::init, wrong, kInitMask).error;
  };
  EXPECT_EQ(refused_at_init([](auto& x) { x.port = 0; }), EINVAL);
  EXPECT_EQ(refused_at_init([](auto& x) { x.port = 2; }), EINVAL);
  EXPECT_EQ(refused_at_init([](auto& x) { x.pkey_index = 1; }), EINVAL);
  EXPECT_EQ(refused_at_init([](auto& x) { x.access = access::kZeroBased; }), EINVAL);
  EXPECT_EQ(a.qp->state(), QueuePairState::reset);
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  const auto refused_at_rtr = [&](std::function<void(QueuePairAttributes&)> spoil) {
    QueuePairAttributes wrong = attributes;
    spoil(wrong);
    return modify(*a.qp, QueuePairState::rtr, wrong, kRtrMask).error;
  };
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.path_mtu = PathMtu{0}; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.path_mtu = PathMtu{6}; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.destination.value = 1 << 24; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.min_rnr_timer = 32; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.responder_depth = 129; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.address.port = 2; }), EINVAL);
  EXPECT_EQ(refused_at_rtr([](auto& x) { x.address.sgid_index = 1; }), EINVAL) << "an empty GID";
  EXPECT_EQ(a.qp->state(), QueuePairState::init);
  ASSERT_TRUE(to_rtr(*a.qp, b.qp->qpn()).ok());
  const auto refused_at_rts = [&](std::function<void(QueuePairAttributes&)> spoil) {
    QueuePairAttributes wrong = attributes;
    spoil(wrong);
    return modify(*a.qp, QueuePairState::rts, wrong, kRtsMask).error;
  };
  EXPECT_EQ(refused_at_rts([](auto& x) { x.timeout = 32; }), EINVAL);
  EXPECT_EQ(refused_at_rts([](auto& x) { x.retry_count = 8; }), EINVAL);
  EXPECT_EQ(refused_at_rts([](auto& x) { x.rnr_retry = 8; }), EINVAL);
  EXPECT_EQ(refused_at_rts([](auto& x) { x.initiator_depth = 129; }), EINVAL);
  EXPECT_TRUE(to_rts(*a.qp, b.qp->qpn()).ok());
}

TEST_F(QueuePairModify, ThePeerHasToBeOnThisHostAndHaveAGlobalAddress) {
  ASSERT_TRUE(to_init(*a.qp, b.qp->qpn()).ok());
  QueuePairAttributes wrong = attributes;
  wrong.address.is_global = false;
  EXPECT_EQ(modify(*a.qp, QueuePairState::rtr, wrong, kRtrMask).error, EINVAL);
  wrong = attributes;
  wrong.address.dgid = gid_of("::ffff:10.9.9.9");
  EXPECT_EQ(modify(*a.qp, QueuePairState::rtr, wrong, kRtrMask).error, EHOSTUNREACH);
  EXPECT_EQ(a.qp->state(), QueuePairState::init);
}

TEST_F(QueuePairModify, FailsWhenNobodyCanBeIntroduced) {
  const Qpn stranger = Qpn::of(Slot{0x66}, 1);
  ASSERT_TRUE(to_init(*a.qp, stranger).ok());
  a.side.process.answer_introductions({ECONNREFUSED});
  EXPECT_EQ(to_rtr(*a.qp, stranger).error, EHOSTUNREACH);
  EXPECT_EQ(a.qp->state(), QueuePairState::init);
}

// The program can mend it, and try again.
TEST_F(QueuePairModify, SaysThatDescriptorsOrMemoryAreMissingForAnIntroduction) {
  const Qpn stranger = Qpn::of(Slot{0x66}, 1);
  ASSERT_TRUE(to_init(*a.qp, stranger).ok());
  for (const int error : {EMFILE, ENFILE, ENOMEM}) {
    a.side.process.answer_introductions({error});
    EXPECT_EQ(to_rtr(*a.qp, stranger).error, error);
    EXPECT_EQ(a.qp->state(), QueuePairState::init);
  }
  a.side.process.answer_introductions(Status::success());
  EXPECT_TRUE(to_rtr(*a.qp, stranger).ok());
}

TEST_F(QueuePairModify, AFalseIdeaOfTheCurrentStateIsRefused) {
  connect_both();
  attributes.current_state = QueuePairState::sqd;
  EXPECT_EQ(modify(*a.qp, QueuePairState::rts, attributes, attribute::kCurrentState).error, EINVAL);
  attributes.current_state = QueuePairState::rts;
  EXPECT_EQ(modify(*a.qp, QueuePairState::rts, attributes, attribute::kCurrentState).error, 0);
}

TEST_F(QueuePairModify, QueryTellsWhatWasSetAndResetForgetsIt) {
  attributes.send_psn = 0x1abcdef;
  attributes.receive_psn = 0x123456;
  ASSERT_TRUE(modify(*a.qp, QueuePairState::init, attributes, kInitMask).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rtr, attributes, kRtrMask).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts, attributes, kRtsMask).ok());
  const QueuePairAttributes seen = a.qp->query();
  EXPECT_EQ(seen.state, QueuePairState::rts);
  EXPECT_EQ(seen.current_state, QueuePairState::rts);
  EXPECT_EQ(seen.send_psn, 0xabcdefu) << "24 bits";
  EXPECT_EQ(seen.receive_psn, 0x123456u);
  EXPECT_EQ(seen.destination, b.qp->qpn());
  EXPECT_EQ(seen.timeout, 10);
  EXPECT_EQ(seen.retry_count, 1);
  EXPECT_EQ(seen.access, kEverything);
  EXPECT_EQ(seen.address.dgid, kHostGid);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  EXPECT_EQ(a.qp->query().state, QueuePairState::reset);
  EXPECT_EQ(a.qp->query().destination, Qpn{});
}

TEST_F(QueuePairModify, RightsTakenAwayHoldForTheNextOperation) {
  connect_both();
  ASSERT_TRUE(a.post(write(1)).ok());
  attributes.access = access::kLocalWrite | access::kRemoteRead;
  ASSERT_TRUE(modify(*b.qp, QueuePairState::rts, attributes, attribute::kAccess).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}, Outcome{2, remote_invalid_request}));
}

TEST_F(QueuePairModify, ResetForgetsRequestsAndCompletionsAndMakesRoom) {
  connect_both();
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(a.post(write(id)).ok());
  for (uint64_t id = 5; id <= 8; ++id) ASSERT_TRUE(a.qp->post_receive({id, {}}).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  EXPECT_THAT(poll_a(), IsEmpty());
  connect_a();
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(a.post(write(10 + id)).ok());
  for (uint64_t id = 5; id <= 8; ++id) EXPECT_TRUE(a.qp->post_receive({id, {}}).ok());
  EXPECT_EQ(poll_a().size(), 4u);
}

// A peer in the middle of a slice, until `over()`.
struct QueuePairRevocation : QueuePairModify {
  std::atomic<bool> touching{false}, ended{false};
  std::thread toucher;

  void touch_until(std::function<bool()> over) {
    toucher = std::thread([this, over] {
      const local::TouchRecords::Guard touch(a.side.process.adapter().touch_records(), 0, {b.qp->qpn()}, false);
      touching.store(true);
      while (!over()) std::this_thread::yield();
      ended.store(true);
    });
    while (!touching.load()) std::this_thread::yield();
  }
  std::optional<local::QueuePairFields> shown() {
    local::QueuePairFields fields;
    if (!b.side.process.adapter().view().read(qpn, fields)) return std::nullopt;
    return fields;
  }
  Qpn qpn = b.qp->qpn();
};

TEST_F(QueuePairRevocation, ModifyToErrWaitsForASliceUnderWay) {
  connect_both();
  touch_until([&] { return shown()->state == static_cast<uint32_t>(QueuePairState::err); });
  ASSERT_TRUE(modify(*b.qp, QueuePairState::err).ok());
  EXPECT_TRUE(ended.load());
  toucher.join();
}

TEST_F(QueuePairRevocation, TakingRightsAwayWaitsForASliceUnderWay) {
  connect_both();
  touch_until([&] { return shown()->access == 0; });
  attributes.access = 0;
  ASSERT_TRUE(modify(*b.qp, QueuePairState::rts, attributes, attribute::kAccess).ok());
  EXPECT_TRUE(ended.load());
  toucher.join();
}

TEST_F(QueuePairRevocation, DestroyingWaitsForASliceUnderWay) {
  connect_both();
  touch_until([&] { return !shown() || shown()->state == static_cast<uint32_t>(QueuePairState::reset); });
  b.qp.reset();
  EXPECT_TRUE(ended.load());
  toucher.join();
}

// ---- life ----

TEST_F(QueuePairErrors, CreationHoldsToTheDevicesLimits) {
  const auto error = [&](QueuePairCapabilities capabilities, QueuePairType type = QueuePairType::rc) {
    return QueuePair::create(a.side.device, a.side.events,
                             {.type = type,
                              .pd = a.side.pd.get(),
                              .send_cq = a.cq.get(),
                              .receive_cq = a.cq.get(),
                              .capabilities = capabilities})
        .error();
  };
  EXPECT_EQ(error({1, 1, 1, 1, 0}), 0);
  EXPECT_EQ(error({32769, 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(error({1, 32769, 1, 1, 0}), EINVAL);
  EXPECT_EQ(error({1, 1, 33, 1, 0}), EINVAL);
  EXPECT_EQ(error({1, 1, 1, 33, 0}), EINVAL);
  EXPECT_EQ(error({1, 1, 1, 1, 1025}), EINVAL);
  EXPECT_EQ(error({1, 1, 1, 1, 0}, QueuePairType::xrc_receive), EINVAL) << "without a domain";
  TestDevice small(0x40, {.max_qp = 1});
  auto cq = small.make_cq();
  const QueuePair::Setup setup{.pd = small.pd.get(), .send_cq = cq.get(), .receive_cq = cq.get()};
  auto only = QueuePair::create(small.device, small.events, setup).take();
  EXPECT_EQ(QueuePair::create(small.device, small.events, setup).error(), ENOMEM);
  only.reset();
  EXPECT_TRUE(QueuePair::create(small.device, small.events, setup).ok());
}

TEST_F(QueuePairErrors, ADestroyedQueuePairLeavesNothingBehind) {
  connect_both();
  ASSERT_TRUE(a.post(bad_write(1)).ok());
  b_takes_notices();
  ASSERT_TRUE(b.qp->post_receive({5, {}}).ok());
  const Qpn qpn = b.qp->qpn();
  b.qp.reset();
  EXPECT_THAT(poll(*b.cq), IsEmpty());
  EXPECT_THAT(b.side.take_events(), IsEmpty());
  EXPECT_FALSE(b.cq->in_use());
  local::QueuePairFields fields;
  EXPECT_FALSE(b.side.process.adapter().view().read(qpn, fields));
}

}  // namespace
}  // namespace verbatim::model
