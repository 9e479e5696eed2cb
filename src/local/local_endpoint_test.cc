#include "local/local_endpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "local/revocation.h"
#include "support/fake_clock.h"
#include "support/local_endpoint_ends.h"
#include "support/log_lines.h"
#include "support/pause.h"

namespace verbatim::local {
namespace {

using namespace testing_support;

class LocalEndpointTest : public LocalEndpointEnds {};

// ---- what is copied ----

TEST_P(LocalEndpointTest, AWriteChangesExactlyItsBytesAtTheTarget) {
  for (uint64_t length : {0, 1, 2, 7, 8, 9, 63, 64, 65, 4095, 4096, 65535, 65536, 65537, 200'001}) {
    for (uint64_t at : {0, 1, 4093}) {
      std::vector<uint8_t> expected(remote.data(), remote.data() + kMemory);
      std::copy_n(local.data(), length, expected.begin() + kBefore + at);
      ASSERT_EQ(run(write(length, at)), Advance::done);
      ASSERT_EQ(offset, length);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), remote.data())) << length << " bytes at " << at;
      std::fill_n(remote.data() + kBefore, length + at, 0x33);
    }
  }
  expect_no_notice();
  EXPECT_FALSE(touching());
}

TEST_P(LocalEndpointTest, AReadChangesExactlyItsBytesHere) {
  for (uint64_t length : {0, 1, 8, 63, 64, 65, 4096, 65536, 65537, 200'001}) {
    std::vector<uint8_t> expected(local.data(), local.data() + kMemory);
    std::copy_n(remote.data() + kBefore + 5, length, expected.begin());
    ASSERT_EQ(run(read(length, 5)), Advance::done);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), local.data())) << length << " bytes";
  }
}

TEST_P(LocalEndpointTest, TheLastByteOfTheRegionCanBeWritten) {
  ASSERT_EQ(run(write(1, kRegion - 1)), Advance::done);
  EXPECT_EQ(remote.data()[kBefore + kRegion - 1], local.data()[0]);
  ASSERT_EQ(run(write(kRegion)), Advance::done);
  EXPECT_TRUE(std::equal(local.data(), local.data() + kRegion, remote.data() + kBefore));
}

TEST_P(LocalEndpointTest, ManySgesAreGatheredAndScatteredInOrder) {
  for (SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read}) {
    SendWork request = work(opcode, 0);
    sges.clear();
    uint64_t total = 0;
    for (int i = 0; i < kMaxSges; ++i) {
      const uint32_t length = i % 5 == 0 ? 0 : 1000 * i + 1;
      sges.push_back({local.address() + 20'000 * i + i, length, lkey});
      total += length;
    }
    request.sges = sges;
    request.length = total;
    std::vector<uint8_t> far(remote.data() + kBefore, remote.data() + kBefore + total);
    std::vector<uint8_t> near;
    for (const Sge& sge : sges)
      near.insert(near.end(), local.data() + (sge.address - local.address()),
                  local.data() + (sge.address - local.address()) + sge.length);
    int steps = 0;
    ASSERT_EQ(run(request, &steps), Advance::done);
    EXPECT_EQ(steps, static_cast<int>((total + kSliceBytes - 1) / kSliceBytes));
    const std::vector<uint8_t>& expected = opcode == SendOpcode::rdma_read ? far : near;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), remote.data() + kBefore));
    std::vector<uint8_t> now;
    for (const Sge& sge : sges)
      now.insert(now.end(), local.data() + (sge.address - local.address()),
                 local.data() + (sge.address - local.address()) + sge.length);
    EXPECT_EQ(now, expected);
  }
}

TEST_P(LocalEndpointTest, ALongMessageIsCutInSlices) {
  const SendWork request = write(3 * kSliceBytes + 5);
  std::fill_n(remote.data(), kMemory, 0);
  std::fill_n(local.data(), kMemory, 0xff);
  for (uint64_t slice = 1; slice <= 3; ++slice) {
    EXPECT_EQ(step(request), Advance::more);
    EXPECT_EQ(offset, slice * kSliceBytes);
    EXPECT_EQ(remote.data()[kBefore + offset - 1], 0xff);
    EXPECT_EQ(remote.data()[kBefore + offset], 0);
  }
  EXPECT_EQ(step(request), Advance::done);
  EXPECT_EQ(offset, 3 * kSliceBytes + 5);
}

// Signals come so fast that hardly a slice is copied without one.
TEST_P(LocalEndpointTest, ASliceIsDoneInOneStepHoweverOftenItIsInterrupted) {
  struct sigaction action {
  }, before;
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, &before);
  const itimerval often{.it_interval = {0, 20}, .it_value = {0, 20}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  int undone = 0;
  for (int i = 0; i < 300; ++i) {
    offset = 0;
    undone += step(write(kSliceBytes)) != Advance::done;
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(undone, 0);
}

TEST_P(LocalEndpointTest, AMessageOfExactlyOneSliceIsDoneInOneStep) {
  EXPECT_EQ(step(write(kSliceBytes)), Advance::done);
}

TEST_P(LocalEndpointTest, InlineDataNeedsNoKey) {
  const uint64_t value = 0x1122334455667788;
  SendWork request = write(8);
  sges = {{reinterpret_cast<uint64_t>(&value), 8, MemoryKey{}}};
  request.sges = sges;
  request.inline_data = true;
  ASSERT_EQ(run(request), Advance::done);
  EXPECT_EQ(std::memcmp(remote.data() + kBefore, &value, 8), 0);
}

TEST_P(LocalEndpointTest, AddressesOfSgesAreInTheRegionsOwnTerms) {
  RegionFields region = local_region();
  region.iova = 0;
  republish_lkey(region);
  SendWork request = write(16);
  sges[0].address = 100;
  ASSERT_EQ(run(request), Advance::done);
  EXPECT_TRUE(std::equal(local.data() + 100, local.data() + 116, remote.data() + kBefore));
}

// ---- what waits ----

TEST_P(LocalEndpointTest, OperationsWaitForAPeerThatIsNotReady) {
  for (QueuePairState state : {QueuePairState::reset, QueuePairState::init, QueuePairState::err}) {
    peer_fields.state = static_cast<uint32_t>(state);
    target.adapter().publish(peer_fields);
    expect_waiting(write(8), Reason::peer_not_ready);
    expect_waiting(read(8), Reason::peer_not_ready);
    expect_waiting(write(0), Reason::peer_not_ready);
  }
  peer_fields.state = 1000;
  target.adapter().publish(peer_fields);
  expect_waiting(write(8), Reason::peer_not_ready);
  EXPECT_FALSE(touching());
}

TEST_P(LocalEndpointTest, OperationsGoOnOnceThePeerIsReady) {
  peer_fields.state = static_cast<uint32_t>(QueuePairState::init);
  target.adapter().publish(peer_fields);
  expect_waiting(write(8), Reason::peer_not_ready);
  for (QueuePairState state : {QueuePairState::rtr, QueuePairState::rts, QueuePairState::sqd, QueuePairState::sqe}) {
    peer_fields.state = static_cast<uint32_t>(state);
    target.adapter().publish(peer_fields);
    EXPECT_EQ(run(write(8)), Advance::done) << name(state);
  }
}

TEST_P(LocalEndpointTest, OperationsWaitForAQueuePairThatIsNotThere) {
  target.adapter().release_qpn(peer);
  expect_waiting(write(8), Reason::peer_not_ready);
}

TEST_P(LocalEndpointTest, OperationsWaitForAPeerThatNamesAnother) {
  const QueuePairFields right = peer_fields;
  for (int wrong = 0; wrong < 3; ++wrong) {
    peer_fields = right;
    if (wrong == 0) peer_fields.peer.value ^= 1;
    if (wrong == 1) peer_fields.own_gid = kOwnGid;
    if (wrong == 2) peer_fields.peer_gid = kPeerGid;
    target.adapter().publish(peer_fields);
    expect_waiting(write(8), Reason::peer_names_another);
  }
  target.adapter().publish(right);
  EXPECT_EQ(run(write(8)), Advance::done);
}

TEST_P(LocalEndpointTest, APeerThatLeavesBetweenSlicesIsWaitedForThere) {
  const SendWork request = write(2 * kSliceBytes);
  ASSERT_EQ(step(request), Advance::more);
  peer_fields.state = static_cast<uint32_t>(QueuePairState::init);
  target.adapter().publish(peer_fields);
  EXPECT_EQ(step(request), Advance::waiting);
  EXPECT_EQ(offset, kSliceBytes);
  peer_fields.state = static_cast<uint32_t>(QueuePairState::rtr);
  target.adapter().publish(peer_fields);
  EXPECT_EQ(step(request), Advance::done);
}

// ---- what a person is told ----

TEST_P(LocalEndpointTest, TheValuesThatDisagreedArePutIntoWordsOnlyForALog) {
  SendWork request = write(8);
  request.remote_address = kIova + kRegion + 4;
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_EQ(verdict.detail, "");
  LogLines lines(LogLevel::warn);
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_NE(verdict.detail.find("starts 4 bytes after its end"), std::string::npos) << verdict.detail;
  request.remote_address = kIova - 3;
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_NE(verdict.detail.find("starts 3 bytes before"), std::string::npos) << verdict.detail;
  request.remote_address = kIova + kRegion - 2;
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_NE(verdict.detail.find("ends 6 bytes later"), std::string::npos) << verdict.detail;
}

// ---- revocation ----

// Whether withdrawn memory stays as its owner left it, while this endpoint writes as fast as it can.
TEST_P(LocalEndpointTest, NothingLandsAfterTheRegionHasSettled) {
  constexpr int kRounds = 200;
  constexpr uint64_t kLength = 16 * 1024;
  std::atomic<uint32_t> current{0};
  std::atomic<uint64_t> written{0};
  std::atomic<bool> stop{false};
  target.adapter().withdraw_region(rkey);
  RegionFields region = remote_region();
  std::fill_n(local.data(), kLength, 0x11);
  std::thread writer([&] {
    SendWork request = write(kLength);
    RandomPause pause(1);
    while (!stop.load(std::memory_order_relaxed)) {
      request.rkey.value = current.load(std::memory_order_relaxed);
      pause(5000);
      uint64_t at = 0;
      Verdict judged;
      if (endpoint.advance(request, at, judged) == Advance::done) written.fetch_add(1, std::memory_order_relaxed);
    }
  });
  const testing_support::FakeClock clock;
  uint8_t* const memory = remote.data() + kBefore;
  RandomPause pause(99);
  uint64_t landed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t before = written.load();
    const MemoryKey key = target.adapter().publish_region(region).take();
    current.store(key.value);
    while (written.load() == before) std::this_thread::yield();
    pause(5000);
    target.adapter().withdraw_region(key);
    settle_region(target.adapter(), target.peers(), clock, key);
    std::fill_n(memory, kLength, 0x22);
    for (int look = 0; look < 3; ++look) landed += static_cast<uint64_t>(std::count(memory, memory + kLength, 0x11));
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(landed, 0u);
}

INSTANTIATE_TEST_SUITE_P(, LocalEndpointTest, every_reach(), name_of);

// ---- finding the peer ----

struct LocalEndpointPeer : testing::Test {
  LocalProcess requester{0x10};
  LocalProcess other{0x20};
  Qpn own = requester.allocate_qpn();
  Qpn peer = other.allocate_qpn();
  LocalEndpoint endpoint{requester.adapter(), requester.peers(), requester.lanes()};
  Verdict verdict;
  uint64_t offset = 0;

  LocalEndpointPeer() {
    other.adapter().publish(
        {.qpn = peer, .state = 3, .access = kAllAccess, .peer = own, .own_gid = kPeerGid, .peer_gid = kOwnGid});
  }
  Status connect() { return endpoint.connect({own, peer, kOwnPd, kOwnGid, kPeerGid}); }
  Advance advance() { return endpoint.advance(SendWork{}, offset, verdict); }
};

TEST_F(LocalEndpointPeer, ConnectingAsksForTheIntroductionAndDoesNotWaitForIt) {
  EXPECT_TRUE(connect().ok());
  EXPECT_EQ(requester.wishes(), std::vector{Slot{0x20}});
  EXPECT_EQ(endpoint.peer(), nullptr);
  EXPECT_EQ(advance(), Advance::waiting);
  EXPECT_EQ(verdict.status, CompletionStatus::retry_exceeded);
  EXPECT_EQ(verdict.reason, Reason::peer_unknown);
  introduce(requester, other);
  EXPECT_EQ(advance(), Advance::done);
  EXPECT_EQ(endpoint.peer()->incarnation(), other.adapter().incarnation());
}

TEST_F(LocalEndpointPeer, WhenNobodyCanBeIntroducedItIsNotConnected) {
  requester.answer_introductions({ENOENT});
  EXPECT_EQ(connect().error, ENOENT);
  EXPECT_EQ(endpoint.path().peer, Qpn{});
}

TEST_F(LocalEndpointPeer, APeerThatDiesFailsOperationsAtOnce) {
  introduce(requester, other);
  ASSERT_TRUE(connect().ok());
  ASSERT_EQ(advance(), Advance::done);
  requester.peers().remove(other.adapter().incarnation());
  EXPECT_EQ(advance(), Advance::failed);
  EXPECT_EQ(verdict.status, CompletionStatus::retry_exceeded);
  EXPECT_EQ(verdict.reason, Reason::peer_dead);
}

TEST_F(LocalEndpointPeer, ConnectingAnewLooksForThePeerAnew) {
  introduce(requester, other);
  ASSERT_TRUE(connect().ok());
  ASSERT_EQ(advance(), Advance::done);
  requester.peers().remove(other.adapter().incarnation());
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(advance(), Advance::waiting);
  EXPECT_EQ(verdict.reason, Reason::peer_unknown);
}

}  // namespace
}  // namespace verbatim::local
