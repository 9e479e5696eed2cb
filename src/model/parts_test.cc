// Data that one side can reach in the other neither by a mapping nor through the kernel: it goes through the lanes in
// parts, and means the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <thread>

#include "support/message_ends.h"
#include "support/refused_call.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using enum CompletionStatus;

constexpr uint32_t kPart = local::kPartBytes;
// A few turns' worth, and no multiple of a part.
constexpr uint32_t kLong = 30 * kPart + 4321;

struct PartsEnds : MessageEnds {
  using MessageEnds::MessageEnds;
  // In a thread of its own, which alone has lost the calls.
  void run(const std::function<void()>& body) {
    bool refused = false;
    std::thread([&] {
      refused = refuse_process_memory();
      if (refused) body();
    }).join();
    if (!refused) GTEST_SKIP() << "no system call can be refused here";
  }
  // All of it lies in the first half of both memories.
  uint8_t* far() { return b.memory.data(); }
  bool same(uint32_t length) { return std::equal(a.memory.begin(), a.memory.begin() + length, b.memory.begin()); }
  Status receive_long(uint64_t id, uint32_t length = kLong) {
    const Sge sge{reinterpret_cast<uint64_t>(far()), length, b.region->key()};
    return b.qp->post_receive({id, {&sge, 1}});
  }
};
struct Parts : testing::Test, PartsEnds {};
struct UnreliableParts : testing::Test, PartsEnds {
  UnreliableParts() : PartsEnds(QueuePairType::uc) {}
};

TEST_F(Parts, AWriteIsDoneByItsTarget) {
  run([&] {
    bring_both();
    ASSERT_TRUE(a.post(write(1, kLong)).ok());
    EXPECT_THAT(poll_a(), IsEmpty());
    EXPECT_EQ(b.memory[0], 0);
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_TRUE(same(kLong));
    EXPECT_EQ(b.memory[kLong], 0);
  });
}

TEST_F(Parts, AReadIsAnsweredByItsTarget) {
  run([&] {
    bring_both();
    for (uint32_t i = 0; i < kLong; ++i) b.memory[i] = static_cast<uint8_t>(i * 11 + 5);
    const uint8_t behind = a.memory[kLong];
    ASSERT_TRUE(a.post(read(1, kLong)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_TRUE(same(kLong));
    EXPECT_EQ(a.memory[kLong], behind);
  });
}

TEST_F(Parts, WhatIsPostedBehindKeepsItsPlace) {
  run([&] {
    bring_both();
    b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything | access::kRemoteAtomic);
    ASSERT_TRUE(b.qp->post_receive({21, {}}).ok());
    ASSERT_TRUE(receive(22).ok());
    SendWork noticed = write_with_imm(2, kLong);
    ASSERT_TRUE(a.post(write(1, kLong)).ok());
    ASSERT_TRUE(a.post(noticed).ok());
    ASSERT_TRUE(a.post(send(3)).ok());
    ASSERT_TRUE(a.post(read(4, 9)).ok());
    ASSERT_TRUE(a.post(fetch_add(5, 1)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success},
                                            Outcome{4, success}, Outcome{5, success}));
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}));
    EXPECT_EQ(at_b[0].byte_length, kLong);
  });
}

TEST_F(Parts, ManyReadersShareTheLane) {
  run([&] {
    constexpr int kReaders = 7;
    std::vector<std::unique_ptr<QueuePair>> readers, sources;
    for (int i = 0; i < kReaders; ++i) {
      readers.push_back(a.make_qp());
      sources.push_back(b.make_qp());
      bring(*sources[i], message_attributes(readers[i]->qpn()));
      bring(*readers[i], message_attributes(sources[i]->qpn()));
    }
    for (uint32_t i = 0; i < kLong; ++i) b.memory[i] = static_cast<uint8_t>(i * 11 + 5);
    std::vector<std::vector<uint8_t>> sinks(kReaders, std::vector<uint8_t>(kLong));
    std::vector<std::unique_ptr<MemoryRegion>> regions;
    for (int i = 0; i < kReaders; ++i) {
      regions.push_back(a.side.register_memory(sinks[i].data(), kLong, kEverything));
      const Sge sge{reinterpret_cast<uint64_t>(sinks[i].data()), kLong, regions[i]->key()};
      SendWork work = read(static_cast<uint64_t>(i), kLong);
      work.sges = {&sge, 1};
      ASSERT_TRUE(QueuePair::Posting(*readers[i]).send(work).ok());
    }
    settle();
    EXPECT_THAT(at_a, SizeIs(kReaders));
    EXPECT_THAT(at_a, Each(testing::Field(&Completion::status, success)));
    for (const std::vector<uint8_t>& sink : sinks) EXPECT_TRUE(std::equal(sink.begin(), sink.end(), far()));
  });
}

TEST_F(Parts, AReadComesBesideMessagesOfItsTarget) {
  run([&] {
    bring_both();
    std::vector<std::unique_ptr<QueuePair>> senders, receivers;
    for (int i = 0; i < 10; ++i) {
      senders.push_back(b.make_qp());
      receivers.push_back(a.make_qp());
      bring(*senders[i], message_attributes(receivers[i]->qpn()));
      bring(*receivers[i], message_attributes(senders[i]->qpn()));
      for (int k = 0; k < 4; ++k) {
        ASSERT_TRUE(receivers[i]->post_receive({100, {}}).ok());
        SendWork work = b.work(a, SendOpcode::send_with_imm, 200, 0);
        work.sges = {};
        ASSERT_TRUE(QueuePair::Posting(*senders[i]).send(work).ok());
      }
    }
    std::fill(b.memory.begin(), b.memory.end(), 3);
    ASSERT_TRUE(a.post(read(1, kLong)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), testing::Contains(Outcome{1, success}));
    EXPECT_TRUE(same(kLong));
  });
}

TEST_F(Parts, TheWayOfAReadMayChangeWhileItIsDrained) {
  run([&] {
    bring_both();
    std::fill(b.memory.begin(), b.memory.end(), 3);
    ASSERT_TRUE(a.post(read(1, kLong)).ok());
    poll_b();
    ASSERT_TRUE(modify(*a.qp, QueuePairState::sqd).ok());
    QueuePairAttributes way = a_attributes();
    way.destination = {};
    ASSERT_TRUE(modify(*a.qp, QueuePairState::sqd, way, attribute::kState | attribute::kAddress).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_TRUE(same(kLong));
  });
}

TEST_F(Parts, OfAMessageFillItsReceive) {
  run([&] {
    bring_both();
    for (uint64_t id = 1; id <= 2; ++id) {  // the second knows from the first that it cannot be fetched
      std::fill(b.memory.begin(), b.memory.end(), 0);
      ASSERT_TRUE(receive_long(20 + id).ok());
      ASSERT_TRUE(a.post(send(id, kLong)).ok());
      settle();
      EXPECT_TRUE(same(kLong)) << id;
    }
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}));
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}));
    for (const Completion& completion : at_b) EXPECT_EQ(completion.byte_length, kLong);
  });
}

TEST_F(Parts, OfAMessageFindTheSharedReceiveThatItTookAtFirst) {
  run([&] {
    remake(b, QueuePairType::rc, true);
    bring_both();
    for (uint64_t id = 1; id <= 2; ++id) {
      std::fill(b.memory.begin(), b.memory.end(), 0);
      const Sge sge{reinterpret_cast<uint64_t>(far()), kLong, b.region->key()};
      ASSERT_TRUE(shared->post({20 + id, {&sge, 1}}).ok());
      ASSERT_TRUE(a.post(send(id, kLong)).ok());
      settle();
      EXPECT_TRUE(same(kLong)) << id;
    }
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}));
    EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}));
    b.qp.reset();  // before its shared queue
  });
}

TEST_F(Parts, OfAMessageWaitForItsReceive) {
  run([&] {
    bring_both();
    ASSERT_TRUE(a.post(send(1, kLong)).ok());
    ASSERT_TRUE(a.post(send(2, kLong)).ok());
    settle();
    EXPECT_THAT(at_a, IsEmpty());
    ASSERT_TRUE(receive_long(21).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_TRUE(same(kLong));
    pass(kReceiverPause * 3);
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, receiver_not_ready_exceeded}));
  });
}

TEST_F(Parts, OfAMessageThatTheReceiveCannotHoldEndBoth) {
  run([&] {
    bring_both();
    ASSERT_TRUE(receive_long(21, kLong - 1).ok());
    ASSERT_TRUE(a.post(send(1, kLong)).ok());
    ASSERT_TRUE(a.post(send(2, kLong)).ok());
    settle();
    ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_invalid_request}, Outcome{2, flushed}));
    EXPECT_EQ(at_a[0].reason, Reason::remote_receive_too_short);
    EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, local_length_error}));
  });
}

TEST_F(Parts, AreRefusedOnceTheRightIsGone) {
  for (const SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read}) {
    run([&] {
      remake(a, QueuePairType::rc);
      remake(b, QueuePairType::rc);
      at_a.clear();
      bring_both();
      SendWork work = write(1, kLong);
      work.opcode = opcode;
      ASSERT_TRUE(a.post(work).ok());
      poll_b();
      b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything);
      settle();
      ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_access_error})) << name(opcode);
      EXPECT_EQ(at_a[0].reason, Reason::remote_key_unknown);
      EXPECT_EQ(b.qp->state(), QueuePairState::err);
      EXPECT_THAT(events_of(b), ElementsAre(AsyncEventType::queue_pair_access_error));
    });
  }
}

TEST_F(Parts, OfMemoryThatIsGoneAreTheTargetsError) {
  for (const SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read}) {
    run([&] {
      remake(a, QueuePairType::rc);
      remake(b, QueuePairType::rc);
      at_a.clear();
      bring_both();
      void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      const auto vanishing = b.side.register_memory(page, 4096, kEverything);
      munmap(page, 4096);
      SendWork work = write(1, 64);
      work.opcode = opcode;
      work.rkey = vanishing->key();
      work.remote_address = reinterpret_cast<uint64_t>(page);
      ASSERT_TRUE(a.post(work).ok());
      settle();
      ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, remote_operation_error})) << name(opcode);
      EXPECT_EQ(at_a[0].reason, Reason::remote_memory_gone);
      EXPECT_EQ(b.qp->state(), QueuePairState::err);
    });
  }
}

TEST_F(Parts, AReadWhoseSinkIsDeregisteredEndsThere) {
  run([&] {
    bring_both();
    std::vector<uint8_t> sink(kLong);
    auto region = a.side.register_memory(sink.data(), kLong, kEverything);
    const Sge sge{reinterpret_cast<uint64_t>(sink.data()), kLong, region->key()};
    std::fill(b.memory.begin(), b.memory.end(), 1);
    SendWork work = read(1, kLong);
    work.sges = {&sge, 1};
    ASSERT_TRUE(a.post(work).ok());
    poll_b();
    region.reset();
    settle();
    ASSERT_THAT(outcomes(at_a), ElementsAre(Outcome{1, local_protection_error}));
    EXPECT_THAT(sink, Each(0));
    EXPECT_EQ(b.qp->state(), QueuePairState::rts);
  });
}

TEST_F(Parts, ThatNobodyAnswersAnyMoreFailWithThePeer) {
  for (const SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read, SendOpcode::send}) {
    PartsEnds ends;
    ends.run([&] {
      ends.bring_both();
      ASSERT_TRUE(ends.receive_long(21).ok());
      SendWork work = ends.send(1, kLong);
      work.opcode = opcode;
      ASSERT_TRUE(ends.a.post(work).ok());
      ends.poll_b();
      EXPECT_THAT(ends.poll_a(), IsEmpty());
      ends.a_learns_that_b_died();
      EXPECT_THAT(outcomes(ends.poll_a()), ElementsAre(Outcome{1, retry_exceeded})) << name(opcode);
    });
  }
}

TEST_F(Parts, OfBeforeAResetAreNobodys) {
  run([&] {
    bring_both();
    std::fill(b.memory.begin(), b.memory.end(), 1);
    ASSERT_TRUE(a.post(read(1, kLong)).ok());
    poll_b();
    ASSERT_TRUE(modify(*a.qp, QueuePairState::reset).ok());
    bring(*a.qp, a_attributes());
    std::fill(b.memory.begin(), b.memory.end(), 2);
    std::fill(a.memory.begin(), a.memory.end(), 3);
    ASSERT_TRUE(a.post(read(2, 16)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{2, success}));
    EXPECT_THAT(std::span(a.memory).first(16), Each(2));
    EXPECT_EQ(a.memory[16], 3);
  });
}

TEST_F(Parts, AreSentAnewToAReceiverThatWasReset) {
  run([&] {
    bring_both();
    ASSERT_TRUE(receive_long(21).ok());
    ASSERT_TRUE(a.post(send(1, kLong)).ok());
    for (int i = 0; i < 2; ++i) poll_b(), poll_a();
    ASSERT_NE(b.memory[0], 0);
    ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
    std::fill(b.memory.begin(), b.memory.end(), 0);
    bring(*b.qp, b_attributes());
    ASSERT_TRUE(receive_long(22).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{22, success}));
    EXPECT_TRUE(same(kLong));
  });
}

TEST_F(Parts, AnAnswerOfAnotherLengthIsAnError) {
  run([&] {
    bring_both();
    ASSERT_TRUE(a.post(read(1, 100)).ok());
    local::QueuePairFields asker;
    ASSERT_TRUE(a.side.process.adapter().view().read(a.qp->qpn(), asker));
    const auto lanes = b.side.device.lanes().to(b.side.process.peers().find(a.qp->qpn().slot()));
    uint8_t few[10] = {};
    const iovec payload{few, sizeof few};
    CopyFault fault;
    ASSERT_EQ(lanes->post({.source = b.qp->qpn(),
                           .target = a.qp->qpn(),
                           .stream = asker.stream,
                           .flags = local::lane_flag::kResponse,
                           .length = sizeof few},
                          {&payload, 1}, {}, &fault),
              local::LanePost::shown);
    const auto ended = poll_a();
    ASSERT_THAT(outcomes(ended), ElementsAre(Outcome{1, remote_operation_error}));
    EXPECT_EQ(ended[0].reason, Reason::bad_response);
  });
}

TEST_F(UnreliableParts, ArriveInOrderFromTheFirstMessageOn) {
  run([&] {
    bring_both();
    for (uint64_t id = 21; id <= 23; ++id) ASSERT_TRUE(receive_long(id).ok());
    ASSERT_TRUE(a.post(send(1, kLong)).ok());
    ASSERT_TRUE(a.post(send(2, 8)).ok());
    ASSERT_TRUE(a.post(send(3, kLong)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}, Outcome{23, success}));
    EXPECT_EQ(at_b[0].byte_length, kLong);
    EXPECT_EQ(at_b[1].byte_length, 8u);
    EXPECT_EQ(at_b[2].byte_length, kLong);
  });
}

TEST_F(UnreliableParts, KeepTheirOrderAfterAMessageThatWasDroppedUnfetched) {
  run([&] {
    bring_both();
    ASSERT_TRUE(a.post(send(1, kLong)).ok());
    settle();
    for (uint64_t id = 21; id <= 22; ++id) ASSERT_TRUE(receive_long(id).ok());
    ASSERT_TRUE(a.post(send(2, kLong)).ok());
    ASSERT_TRUE(a.post(send(3, 8)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}));
    EXPECT_EQ(at_b[0].byte_length, kLong);
    EXPECT_EQ(at_b[1].byte_length, 8u);
  });
}

TEST_F(UnreliableParts, WithoutAReceiveAreLostAndLeaveNothingBehind) {
  run([&] {
    bring_both();
    ASSERT_TRUE(receive_long(21).ok());
    for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(a.post(send(id, kLong)).ok());
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}, Outcome{2, success}, Outcome{3, success}));
    EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
    std::fill(b.memory.begin(), b.memory.end(), 0);
    ASSERT_TRUE(receive_long(22).ok());
    ASSERT_TRUE(a.post(send(4, kLong)).ok());
    settle();
    EXPECT_TRUE(same(kLong));
    EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{22, success}));
  });
}

TEST_F(UnreliableParts, OfAWriteThatIsNotAllowedAreLost) {
  run([&] {
    bring_both();
    ASSERT_TRUE(a.post(write(1, kLong)).ok());
    poll_b();
    b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything);
    settle();
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_EQ(b.qp->state(), QueuePairState::rts);
    EXPECT_EQ(a.side.device.dropped_messages(), 1u);
  });
}

}  // namespace
}  // namespace verbatim::model
