// The receiving side of messages: what it refuses, with which status on both sides, and what of it is lost.
#include "model/responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "model/xrc_domain.h"
#include "support/message_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;
using enum AsyncEventType;

constexpr uint32_t kLong = 20'000;  // is fetched by the receiver

struct ResponderTest : testing::Test, MessageEnds {
  explicit ResponderTest(QueuePairType type = QueuePairType::rc, bool shares = false) : MessageEnds(type, shares) {}
  // Where nothing can be written any more, though it was registered.
  struct Vanishing {
    explicit Vanishing(End& end, uint32_t access = kEverything)
        : bytes(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          region(end.side.register_memory(bytes, kBytes, access)) {}
    void vanish() { mprotect(bytes, kBytes, PROT_NONE); }
    ~Vanishing() { munmap(bytes, kBytes); }
    Sge sge(uint32_t length) const { return {reinterpret_cast<uint64_t>(bytes), length, region->key()}; }
    static constexpr size_t kBytes = 256 * 1024;
    void* const bytes;
    std::unique_ptr<MemoryRegion> region;
  };
};

// A message that the receiver has still to fetch.
struct MessageUnderWay : ResponderTest {
  Vanishing memory{a};

  void SetUp() override {
    bring_both();
    ASSERT_TRUE(receive(21).ok());
    SendWork work = send(1, kLong);
    const Sge sge = memory.sge(kLong);
    work.sges = {&sge, 1};
    ASSERT_TRUE(a.post(work).ok());
  }
};

// ---- the status table, RC ----

TEST_F(ResponderTest, AMessageLongerThanTheReceiveEndsBoth) {
  bring_both();
  ASSERT_TRUE(receive(21, 7).ok());
  ASSERT_TRUE(receive(22).ok());
  ASSERT_TRUE(a.post(send(1, 8)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_invalid_request}));
  EXPECT_EQ(at_a[0].reason, Reason::remote_receive_too_short);
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, local_length_error}, Outcome{22, flushed}));
  EXPECT_EQ(at_b[0].reason, Reason::receive_too_short);
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
  EXPECT_EQ(a.qp->state(), QueuePairState::err);
}

TEST_F(ResponderTest, AReceiveWithABadSgeEndsBothForItsOwnReason) {
  bring_both();
  Sge bad = receive_sge(0, 100);
  bad.lkey.value ^= 1;
  ASSERT_TRUE(b.qp->post_receive({21, {&bad, 1}}).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_operation_error}));
  EXPECT_EQ(at_a[0].reason, Reason::remote_receive_bad);
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, local_protection_error}));
  EXPECT_EQ(at_b[0].reason, Reason::local_key_unknown);
}

TEST_F(ResponderTest, AReceiveWhoseMemoryVanishedEndsBothForItsOwnReason) {
  for (const uint32_t length : {100u, kLong}) {
    remake(a, QueuePairType::rc);
    remake(b, QueuePairType::rc);
    at_a.clear(), at_b.clear();
    bring_both();
    Vanishing memory(b);
    const Sge sge = memory.sge(kLong);
    ASSERT_TRUE(b.qp->post_receive({21, {&sge, 1}}).ok());
    memory.vanish();
    ASSERT_TRUE(a.post(send(1, length)).ok());
    settle();
    ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_operation_error})) << length;
    EXPECT_EQ(at_a[0].reason, Reason::remote_receive_bad);
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, local_protection_error}));
    EXPECT_EQ(at_b[0].reason, Reason::local_memory_gone);
  }
}

TEST_F(MessageUnderWay, WhoseMemoryVanishesIsTheSendersErrorAndTakesNoReceive) {
  memory.vanish();
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, local_protection_error}));
  EXPECT_EQ(at_a[0].reason, Reason::local_memory_gone);
  EXPECT_THAT(at_b, IsEmpty());
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  // The same receive serves the next connection's message.
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(2, kLong)).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + kLong, received(0)));
}

TEST_F(MessageUnderWay, WhoseRegionIsDeregisteredIsTheSendersError) {
  memory.region.reset();
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, local_protection_error}));
  EXPECT_EQ(at_a[0].reason, Reason::local_key_unknown);
}

TEST_F(ResponderTest, ANoticeWithoutTheRightToWriteIsInvalid) {
  QueuePairAttributes attributes = b_attributes();
  attributes.access = access::kLocalWrite;
  bring(*b.qp, attributes);
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(b.qp->post_receive({21, {}}).ok());
  ASSERT_TRUE(a.post(write_with_imm(1, 0)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_invalid_request}));
  EXPECT_EQ(at_a[0].reason, Reason::remote_operation_off);
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, flushed})) << "it is not consumed";
  EXPECT_THAT(events_of(b), ElementsAre(queue_pair_request_error));
}

TEST_F(ResponderTest, AWriteWithoutItsKeyTakesNoReceive) {
  bring_both();
  ASSERT_TRUE(b.qp->post_receive({21, {}}).ok());
  SendWork work = write_with_imm(1);
  work.rkey.value ^= 1;
  ASSERT_TRUE(a.post(work).ok());
  b_takes_notices();
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_access_error}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, flushed}));
  EXPECT_THAT(events_of(b), ElementsAre(queue_pair_access_error));
}

TEST_F(ResponderTest, AnInvalidationThatIsNotAllowedIsAnAccessError) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  SendWork work = send(1);
  work.opcode = SendOpcode::send_with_invalidate;
  work.immediate = b.region->key().value;
  ASSERT_TRUE(a.post(work).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_access_error}));
  EXPECT_EQ(at_a[0].reason, Reason::not_invalidatable);
  EXPECT_EQ(at_b[0].status, local_protection_error);
  EXPECT_THAT(events_of(b), ElementsAre(queue_pair_access_error));
}

TEST_F(ResponderTest, TheFirstMessageInRtrEstablishesTheCommunication) {
  bring(*b.qp, b_attributes(), QueuePairState::rtr);
  bring(*a.qp, a_attributes());
  for (uint64_t id = 21; id <= 22; ++id) ASSERT_TRUE(receive(id).ok());
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(a.post(send(id)).ok());
  settle();
  EXPECT_EQ(at_b.size(), 2u);
  EXPECT_THAT(events_of(b), ElementsAre(communication_established));
}

TEST_F(ResponderTest, InErrEveryReceiveIsFlushedAsItComes) {
  bring_both();
  ASSERT_TRUE(modify(*b.qp, QueuePairState::err).ok());
  ASSERT_TRUE(receive(21).ok());
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{21, flushed}));
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  EXPECT_EQ(receive(22).error, EINVAL);
}

TEST_F(ResponderTest, OnlyThePeerItIsConnectedToIsHeard) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  auto stranger = a.make_qp();
  bring(*stranger, a_attributes());
  ASSERT_TRUE(QueuePair::Posting(*stranger).send(send(1)).ok());
  settle();
  EXPECT_THAT(at_b, IsEmpty());
  EXPECT_EQ(stranger->state(), QueuePairState::rts) << "it waits for b to be connected to it";
}

// ---- atomics ----

TEST_F(ResponderTest, AnAtomicOnMemoryThatOnlyItsOwnerReachesIsExecutedThere) {
  bring_both();
  ASSERT_TRUE(a.post(fetch_add(1, 5)).ok());
  ASSERT_TRUE(a.post(fetch_add(2, 6)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_access_error}, Outcome{2, flushed}))
      << "the region does not grant atomics";
  EXPECT_EQ(at_a[0].reason, Reason::remote_no_access);
}

struct ResponderToAtomics : ResponderTest {
  ResponderToAtomics() {
    b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything | access::kRemoteAtomic);
  }
  uint64_t word() {
    uint64_t value;
    std::memcpy(&value, b.memory.data(), sizeof value);
    return value;
  }
};

TEST_F(ResponderToAtomics, AreExecutedInOrderWithMessages) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(fetch_add(1, 5)).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  ASSERT_TRUE(a.post(fetch_add(3, 6)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
  EXPECT_EQ(word(), 11u);
  uint64_t before;
  std::memcpy(&before, a.memory.data(), sizeof before);
  EXPECT_EQ(before, 5u);
}

// Who takes a window away waits for what goes through it (local/revocation.h): the record, which still names what was
// touched last, must have named the entry of its key.
TEST_F(ResponderToAtomics, AreSeenByWhoTakesTheirWindowAway) {
  bring_both();
  ASSERT_TRUE(a.post(fetch_add(1, 5)).ok());
  settle();
  ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
  const local::SegmentView& view = b.side.process.adapter().view();
  const uint64_t touched = uint64_t{b.qp->qpn().value} << 32 | view.entry_index(b.region->key());
  const std::span records(view.touch_records(), local::kTouchRecords);
  EXPECT_TRUE(std::ranges::any_of(records, [&](const local::TouchRecord& record) { return record.target == touched; }));
}

TEST_F(ResponderToAtomics, AreRefusedAsTheTableSays) {
  const auto refused = [&](QueuePairAttributes theirs, SendWork work) {
    remake(a, QueuePairType::rc);
    remake(b, QueuePairType::rc);
    at_a.clear();
    theirs.destination = a.qp->qpn();
    bring(*b.qp, theirs);
    bring(*a.qp, a_attributes());
    EXPECT_TRUE(a.post(work).ok());
    settle();
    b_takes_notices();
    EXPECT_EQ(b.qp->state(), QueuePairState::err);
    EXPECT_EQ(at_a.size(), 1u);
    return at_a.empty() ? std::pair(success, Reason::none) : std::pair(at_a[0].status, at_a[0].reason);
  };
  SendWork unaligned = fetch_add(1, 1);
  unaligned.remote_address += 4;
  unaligned.rkey.value ^= 1;
  EXPECT_EQ(refused(b_attributes(), unaligned), std::pair(remote_invalid_request, Reason::remote_unaligned_atomic))
      << "before the key";
  QueuePairAttributes off = b_attributes();
  off.access = kEverything;
  EXPECT_EQ(refused(off, fetch_add(1, 1)), std::pair(remote_invalid_request, Reason::remote_operation_off));
  QueuePairAttributes shallow = b_attributes();
  shallow.responder_depth = 0;
  EXPECT_EQ(refused(shallow, fetch_add(1, 1)), std::pair(remote_invalid_request, Reason::remote_no_read_depth));
  SendWork outside = fetch_add(1, 1);
  outside.remote_address += b.memory.size();
  EXPECT_EQ(refused(b_attributes(), outside), std::pair(remote_access_error, Reason::remote_range));
}

// As where the requester finds it out itself (NoticeKind::operation_error): no receive tells of it.
TEST_F(ResponderToAtomics, OnMemoryThatVanishedAreAnErrorOfTheOwnersThatAnEventTells) {
  Vanishing memory(b, kEverything | access::kRemoteAtomic);
  memory.vanish();
  bring_both();
  SendWork work = fetch_add(1, 1);
  work.rkey = memory.region->key();
  work.remote_address = reinterpret_cast<uint64_t>(memory.bytes);
  ASSERT_TRUE(a.post(work).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_operation_error}));
  EXPECT_EQ(b.qp->state(), QueuePairState::err);
  EXPECT_THAT(events_of(b), ElementsAre(queue_pair_fatal));
}

// ---- UC ----

struct UnreliableResponder : ResponderTest {
  UnreliableResponder() : ResponderTest(QueuePairType::uc) {}
};

TEST_F(UnreliableResponder, WithoutAReceiveTheMessageIsLostAndCounted) {
  bring_both();
  ASSERT_TRUE(a.post(send(1)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  settle();
  EXPECT_EQ(b.side.device.dropped_messages(), 1u);
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(UnreliableResponder, AMessageThatIsTooLongIsLostAndTheReceiveStays) {
  bring_both();
  ASSERT_TRUE(receive(21, 100).ok());
  ASSERT_TRUE(a.post(send(1, kLong)).ok());
  ASSERT_TRUE(a.post(send(2, 101)).ok());
  ASSERT_TRUE(a.post(send(3, 100)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(at_b[0].byte_length, 100u);
  EXPECT_EQ(b.side.device.dropped_messages(), 2u);
}

TEST_F(UnreliableResponder, AWriteThatIsNotAllowedIsLostAndHarmsNobody) {
  bring_both();
  SendWork bad = write(1);
  bad.rkey.value ^= 1;
  ASSERT_TRUE(a.post(bad).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  b_takes_notices();
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}));
  EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  EXPECT_THAT(events_of(b), IsEmpty());
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 8, b.memory.begin()));
}

TEST_F(UnreliableResponder, WhoIsNotReadyOrDeadLosesWhatComes) {
  bring(*b.qp, b_attributes(), QueuePairState::init);
  bring(*a.qp, a_attributes());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(write(2)).ok());
  a_learns_that_b_died();
  ASSERT_TRUE(a.post(send(3)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
  EXPECT_EQ(a.qp->state(), QueuePairState::rts);
}

TEST_F(UnreliableResponder, WhatASenderSentBeforeItsResetIsReceivedUnlessItsMemoryIsNeeded) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(receive(22).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  ASSERT_TRUE(a.post(send(2, kLong)).ok());
  ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

// Its program may end as soon as its last message is in the lane.
TEST_F(UnreliableResponder, WhatASenderSentBeforeItsEndIsReceived) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(receive(22).ok());
  ASSERT_TRUE(a.post(send(1)).ok());
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{21, success}));
  ASSERT_TRUE(a.post(send(2)).ok());
  b.side.process.peers().remove(a.side.process.adapter().incarnation());
  b.side.device.on_peer_dead();
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{22, success}));
}

TEST_F(UnreliableResponder, AMessageThatIsFetchedWhenItsReceiverDiesIsLost) {
  bring_both();
  ASSERT_TRUE(receive(21, 1'500'000).ok());
  ASSERT_TRUE(a.post(send(1, 1'200'000)).ok());
  EXPECT_THAT(poll_b(), IsEmpty());
  EXPECT_THAT(poll_a(), IsEmpty());
  a_learns_that_b_died();
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
}

TEST_F(UnreliableResponder, AnErrorOfTheSendersOwnStopsItsSendQueueAlone) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  SendWork bad = send(1);
  a.sges[0].lkey.value ^= 1;
  ASSERT_TRUE(a.post(bad).ok());
  EXPECT_EQ(a.qp->state(), QueuePairState::sqe);
  ASSERT_TRUE(a.post(send(2)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, local_protection_error}, Outcome{2, flushed}));
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  ASSERT_TRUE(a.post(send(3)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{3, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

// ---- UD ----

struct DatagramResponder : ResponderTest {
  DatagramResponder() : ResponderTest(QueuePairType::ud) {}
};

TEST_F(DatagramResponder, ADatagramComesWithTheHeaderBeforeIt) {
  bring_both();
  ASSERT_TRUE(receive(21, 140).ok());
  ASSERT_TRUE(a.post(datagram(1, 100)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  settle();
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(at_b[0].byte_length, 140u);
  EXPECT_EQ(at_b[0].source, a.qp->qpn());
  EXPECT_EQ(at_b[0].flags, completion_flag::kGlobalRoute);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 100, received(0) + 40));
}

TEST_F(DatagramResponder, WithoutAReceiveOrWithAnotherKeyItIsLostAndCounted) {
  bring_both();
  ASSERT_TRUE(a.post(datagram(1)).ok());
  settle();
  EXPECT_EQ(b.side.device.dropped_messages(), 1u);
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(datagram(2, 8, kQkey + 1)).ok());
  settle();
  EXPECT_EQ(b.side.device.dropped_messages(), 2u);
  ASSERT_TRUE(a.post(datagram(3)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(DatagramResponder, APrivilegedKeyOfARequestStandsForTheQueuePairs) {
  bring_both();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(datagram(1, 8, 0x8000'0000)).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(DatagramResponder, AReceiveThatIsTooShortStays) {
  bring_both();
  ASSERT_TRUE(receive(21, 140).ok());
  ASSERT_TRUE(a.post(datagram(1, 101)).ok());
  ASSERT_TRUE(a.post(datagram(2, 100)).ok());
  settle();
  EXPECT_EQ(b.side.device.dropped_messages(), 1u);
  ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  EXPECT_EQ(at_b[0].byte_length, 140u);
}

TEST_F(DatagramResponder, WhatThePathCannotCarryOrAnotherDomainAddressesStopsTheSendQueue) {
  bring_both();
  const uint32_t limit = bytes_of(a.side.device.port().active_mtu);
  ASSERT_TRUE(a.post(datagram(1, limit + 1)).ok());
  EXPECT_EQ(a.qp->state(), QueuePairState::sqe);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  SendWork foreign = datagram(2);
  foreign.operands.datagram.address.pd.value += 1;
  ASSERT_TRUE(a.post(foreign).ok());
  EXPECT_EQ(a.qp->state(), QueuePairState::sqe);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  SendWork other = datagram(3);
  other.opcode = SendOpcode::rdma_write;
  ASSERT_TRUE(a.post(other).ok());
  const auto completions = poll_a();
  ASSERT_THAT(outcomes(completions), ElementsAre(Outcome{1, local_length_error}, Outcome{2, local_qp_operation_error},
                                                 Outcome{3, local_qp_operation_error}));
  EXPECT_EQ(completions[0].reason, Reason::datagram_too_long);
  EXPECT_EQ(completions[1].reason, Reason::datagram_other_pd);
  EXPECT_EQ(completions[2].reason, Reason::operation_not_for_type);
  ASSERT_TRUE(modify(*a.qp, QueuePairState::rts).ok());
  ASSERT_TRUE(receive(21, limit + 40).ok());
  ASSERT_TRUE(a.post(datagram(4, limit)).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
}

TEST_F(DatagramResponder, ADeadTargetLosesWhatComes) {
  bring_both();
  ASSERT_TRUE(a.post(datagram(1)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{1, success}));
  a_learns_that_b_died();
  ASSERT_TRUE(a.post(datagram(2)).ok());
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{2, success}));
}

TEST_F(DatagramResponder, OneWithoutAReceiveStopsNoOther) {
  bring_both();
  auto second_a = a.make_qp({16, 16, 4, 4, 64});
  auto second_b = b.make_qp({16, 16, 4, 4, 64});
  QueuePairAttributes attributes = message_attributes(second_b->qpn());
  attributes.rnr_retry = 7;
  bring(*second_a, attributes);
  bring(*second_b, message_attributes(second_a->qpn()));
  ASSERT_TRUE(QueuePair::Posting(*second_a).send(send(1)).ok()) << "RC, without a receive";
  ASSERT_TRUE(a.post(datagram(2)).ok()) << "UD, without a receive";
  settle();
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(datagram(3)).ok());
  settle();
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{2, success}, Outcome{3, success}));
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
  const Sge sge = receive_sge(1, 100);
  ASSERT_TRUE(second_b->post_receive({31, {&sge, 1}}).ok());
  settle();
  EXPECT_EQ(at_a.back().work_id, 1u);
  EXPECT_EQ(at_b.back().work_id, 31u);
}

}  // namespace
}  // namespace verbatim::model
