#include "local/local_endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "local/backing.h"
#include "local/revocation.h"
#include "support/fake_clock.h"
#include "support/local_process.h"
#include "support/log_lines.h"
#include "support/pause.h"
#include "support/shared_memory.h"

namespace verbatim::local {
namespace {

using testing_support::introduce;
using testing_support::LocalProcess;
using testing_support::LogLines;
using testing_support::Pages;
using testing_support::RandomPause;

constexpr uint64_t kMemory = 1024 * 1024;
constexpr uint64_t kRegion = 512 * 1024;  // what is registered lies in the middle of the memory
constexpr uint64_t kBefore = kMemory / 4;
constexpr uint64_t kIova = 0x7000'0000'0123;
constexpr uint32_t kAllAccess = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;
constexpr PdId kOwnPd{11}, kPeerPd{22};

Gid gid(const char* text) {
  Gid value;
  inet_pton(AF_INET6, text, value.bytes.data());
  return value;
}
const Gid kOwnGid = gid("::ffff:10.0.0.1");
const Gid kPeerGid = gid("::ffff:10.0.0.2");

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

// The three ways to the target's memory.
enum class Reach { own_memory, kernel, mapping };

class LocalEndpointTest : public testing::TestWithParam<Reach> {
 public:
  LocalProcess requester{0x10};
  LocalProcess other{0x20};
  LocalProcess& target = GetParam() == Reach::own_memory ? requester : other;
  Pages local{kMemory, Pages::Kind::private_memory};
  Pages remote{kMemory, GetParam() == Reach::mapping ? Pages::Kind::shared_file : Pages::Kind::private_memory};
  Qpn own = requester.allocate_qpn();
  Qpn peer = target.allocate_qpn();
  std::optional<OwnedBacking> backing;
  MemoryKey lkey = requester.adapter().publish_region(local_region()).take();
  MemoryKey rkey = target.adapter().publish_region(remote_region()).take();
  QueuePairFields peer_fields{.qpn = peer,
                              .state = static_cast<uint32_t>(QueuePairState::rts),
                              .access = kAllAccess,
                              .pd = kPeerPd,
                              .peer = own,
                              .responder_depth = 1,
                              .own_gid = kPeerGid,
                              .peer_gid = kOwnGid};
  LocalEndpoint endpoint{requester.adapter(), requester.peers()};
  std::vector<Sge> sges;
  Verdict verdict;
  uint64_t offset = 0;

  LocalEndpointTest() {
    requester.allocate_qpn();
    if (GetParam() != Reach::own_memory) introduce(requester, other);
    target.adapter().publish(peer_fields);
    EXPECT_TRUE(endpoint.connect({own, peer, kOwnPd, kOwnGid, kPeerGid}).ok());
    std::mt19937_64 random(42);
    for (uint8_t& byte : local.bytes()) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : remote.bytes()) byte = static_cast<uint8_t>(random());
  }

  RegionFields local_region() const {
    return {.pd = kOwnPd,
            .access = access::kLocalWrite,
            .iova = local.address(),
            .length = kMemory,
            .address = local.address()};
  }
  RegionFields remote_region() {
    RegionFields region{
        .pd = kPeerPd, .access = kAllAccess, .iova = kIova, .length = kRegion, .address = remote.address() + kBefore};
    backing = find_backing(region.address, region.length).take();
    EXPECT_EQ(backing.has_value(), GetParam() == Reach::mapping);
    if (backing) {
      region.backing_fd = backing->backing().fd;
      region.backing_device = backing->backing().device;
      region.backing_inode = backing->backing().inode;
      region.backing_offset = backing->backing().offset;
    }
    return region;
  }
  void republish_region(const RegionFields& region) {
    target.adapter().withdraw_region(rkey);
    rkey = target.adapter().publish_region(region).take();
  }
  void republish_lkey(const RegionFields& region) {
    requester.adapter().withdraw_region(lkey);
    lkey = requester.adapter().publish_region(region).take();
  }

  // One SGE over the first `length` bytes of our memory.
  SendWork work(SendOpcode opcode, uint64_t length, uint64_t remote_offset = 0) {
    sges = {{local.address(), static_cast<uint32_t>(length), lkey}};
    return {.opcode = opcode, .rkey = rkey, .remote_address = kIova + remote_offset, .sges = sges, .length = length};
  }
  SendWork write(uint64_t length, uint64_t at = 0) { return work(SendOpcode::rdma_write, length, at); }
  SendWork read(uint64_t length, uint64_t at = 0) { return work(SendOpcode::rdma_read, length, at); }

  Advance step(const SendWork& what) {
    verdict = {};
    return endpoint.advance(what, offset, verdict);
  }
  // From the beginning to an end; how many steps it took.
  Advance run(const SendWork& what, int* steps = nullptr) {
    offset = 0;
    Advance result;
    int count = 0;
    do {
      result = step(what);
      ++count;
    } while (result == Advance::more);
    if (steps) *steps = count;
    return result;
  }

  void expect_failure(const SendWork& what, CompletionStatus status, Reason reason) {
    const std::vector<uint8_t> before(remote.data(), remote.data() + kMemory);
    EXPECT_EQ(run(what), Advance::failed);
    EXPECT_EQ(verdict.status, status) << name(verdict.status);
    EXPECT_EQ(verdict.reason, reason) << describe(verdict.reason).name;
    EXPECT_EQ(offset, 0u);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), remote.data())) << "a refused operation touched memory";
  }
  void expect_waiting(const SendWork& what, Reason reason) {
    EXPECT_EQ(run(what), Advance::waiting);
    EXPECT_EQ(verdict.status, CompletionStatus::retry_exceeded);
    EXPECT_EQ(verdict.reason, reason) << describe(verdict.reason).name;
    EXPECT_EQ(offset, 0u);
    EXPECT_EQ(notices(), 0u);
  }
  uint64_t notices() { return requester.adapter().view().notice_count(); }
  void expect_only_notice(NoticeKind kind) {
    ASSERT_EQ(notices(), 1u);
    NoticeFields notice;
    ASSERT_TRUE(requester.adapter().view().read_notice(0, notice));
    EXPECT_EQ(notice.target, peer);
    EXPECT_EQ(notice.source, own);
    EXPECT_EQ(notice.kind, static_cast<uint32_t>(kind));
    EXPECT_TRUE(readable(target.adapter().doorbell_fd()));
  }
  void expect_no_notice() {
    EXPECT_EQ(notices(), 0u);
    EXPECT_FALSE(readable(target.adapter().doorbell_fd()));
  }
  bool touching() {
    const TouchRecord* records = requester.adapter().view().touch_records();
    return std::any_of(records, records + kTouchRecords, [](const TouchRecord& r) { return r.word.load() & 1; });
  }
};

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

TEST_P(LocalEndpointTest, ALongMessageIsCutInSlicesOf64KiB) {
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

// ---- what is refused: our own side ----

TEST_P(LocalEndpointTest, AnUnknownLkeyIsALocalProtectionError) {
  SendWork request = write(8);
  sges[0].lkey.value ^= 1;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
  expect_no_notice();
}

TEST_P(LocalEndpointTest, AnLkeyOfAnotherPdIsALocalProtectionError) {
  RegionFields region = local_region();
  region.pd = PdId{kOwnPd.value + 1};
  republish_lkey(region);
  expect_failure(write(8), CompletionStatus::local_protection_error, Reason::local_key_other_pd);
  expect_no_notice();
}

TEST_P(LocalEndpointTest, AnSgeOutsideItsRegionIsALocalProtectionError) {
  for (int64_t start : {int64_t{-1}, int64_t(kMemory) - 7, int64_t(kMemory) + 1, INT64_MAX}) {
    SendWork request = write(8);
    sges[0].address = local.address() + static_cast<uint64_t>(start);
    expect_failure(request, CompletionStatus::local_protection_error, Reason::local_range);
  }
  expect_no_notice();
}

TEST_P(LocalEndpointTest, TheLastSgeIsCheckedBeforeTheFirstByteMoves) {
  SendWork request = write(0);
  sges = {{local.address(), kSliceBytes, lkey}, {local.address(), 8, MemoryKey{lkey.value ^ 1}}};
  request.sges = sges;
  request.length = kSliceBytes + 8;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
}

TEST_P(LocalEndpointTest, AReadIntoMemoryWithoutLocalWriteIsALocalProtectionError) {
  RegionFields region = local_region();
  region.access = 0;
  republish_lkey(region);
  expect_failure(read(8), CompletionStatus::local_protection_error, Reason::local_no_write_access);
  expect_no_notice();
  EXPECT_EQ(run(write(8)), Advance::done) << "a write only reads it";
}

TEST_P(LocalEndpointTest, AnSgeOfNoBytesIsNotLookedAt) {
  SendWork request = write(8);
  sges.push_back({0xdead, 0, MemoryKey{0xbad}});
  request.sges = sges;
  EXPECT_EQ(run(request), Advance::done);
}

TEST_P(LocalEndpointTest, OurErrorComesBeforeWaitingForThePeer) {
  peer_fields.state = static_cast<uint32_t>(QueuePairState::init);
  target.adapter().publish(peer_fields);
  SendWork request = write(8);
  sges[0].lkey.value ^= 1;
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_key_unknown);
}

TEST_P(LocalEndpointTest, MemoryOfOursThatIsGoneIsALocalProtectionError) {
  const SendWork request = write(8);
  local.vanish();
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_memory_gone);
  expect_no_notice();
}

TEST_P(LocalEndpointTest, AReadIntoMemoryThatIsGoneIsALocalProtectionError) {
  const SendWork request = read(8);
  local.forbid_writing();
  expect_failure(request, CompletionStatus::local_protection_error, Reason::local_memory_gone);
  expect_no_notice();
}

// ---- what is refused: the target's side ----

TEST_P(LocalEndpointTest, AnUnknownRkeyIsARemoteAccessError) {
  SendWork request = write(8);
  request.rkey.value ^= 1;
  expect_failure(request, CompletionStatus::remote_access_error, Reason::remote_key_unknown);
  expect_only_notice(NoticeKind::access_error);
}

TEST_P(LocalEndpointTest, AWithdrawnRkeyIsARemoteAccessError) {
  ASSERT_EQ(run(write(8)), Advance::done);
  target.adapter().withdraw_region(rkey);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_key_unknown);
}

TEST_P(LocalEndpointTest, ARegionWithdrawnBetweenSlicesEndsTheMessageThere) {
  const SendWork request = write(2 * kSliceBytes);
  ASSERT_EQ(step(request), Advance::more);
  target.adapter().withdraw_region(rkey);
  EXPECT_EQ(step(request), Advance::failed);
  EXPECT_EQ(verdict.reason, Reason::remote_key_unknown);
  EXPECT_EQ(offset, kSliceBytes);
}

TEST_P(LocalEndpointTest, ARegionOfAnotherPdIsARemoteAccessError) {
  RegionFields region = remote_region();
  region.pd = PdId{kPeerPd.value + 1};
  republish_region(region);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_key_other_pd);
  expect_only_notice(NoticeKind::access_error);
}

TEST_P(LocalEndpointTest, ARegionGrantsReadsAndWritesApart) {
  RegionFields region = remote_region();
  region.access = access::kLocalWrite | access::kRemoteRead;
  republish_region(region);
  EXPECT_EQ(run(read(8)), Advance::done);
  expect_failure(write(8), CompletionStatus::remote_access_error, Reason::remote_no_access);
  expect_only_notice(NoticeKind::access_error);
  region.access = access::kLocalWrite | access::kRemoteWrite;
  republish_region(region);
  EXPECT_EQ(run(write(8)), Advance::done);
  expect_failure(read(8), CompletionStatus::remote_access_error, Reason::remote_no_access);
}

TEST_P(LocalEndpointTest, OutsideTheRegionIsARemoteAccessError) {
  const uint64_t starts[] = {kIova - 1, kIova + kRegion - 7, kIova + kRegion + 1, kIova - kBefore, 0, UINT64_MAX - 3};
  for (SendOpcode opcode : {SendOpcode::rdma_write, SendOpcode::rdma_read})
    for (uint64_t start : starts) {
      SendWork request = work(opcode, 8);
      request.remote_address = start;
      expect_failure(request, CompletionStatus::remote_access_error, Reason::remote_range);
    }
  EXPECT_EQ(notices(), 2 * std::size(starts));
}

TEST_P(LocalEndpointTest, AMessageThatEndsOutsideFailsBeforeItsFirstSlice) {
  expect_failure(write(3 * kSliceBytes, kRegion - 3 * kSliceBytes + 1), CompletionStatus::remote_access_error,
                 Reason::remote_range);
}

TEST_P(LocalEndpointTest, AMessageOfNoBytesNeedsNoRegion) {
  SendWork request = write(0);
  request.rkey = MemoryKey{0xdeadbeef};
  EXPECT_EQ(run(request), Advance::done);
  expect_no_notice();
}

TEST_P(LocalEndpointTest, AnOperationThatIsOffAtTheQueuePairIsAnInvalidRequest) {
  peer_fields.access = access::kRemoteRead;
  target.adapter().publish(peer_fields);
  expect_failure(write(8), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  expect_only_notice(NoticeKind::invalid_request);
  expect_failure(write(0), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  EXPECT_EQ(run(read(8)), Advance::done);
  peer_fields.access = access::kRemoteWrite;
  target.adapter().publish(peer_fields);
  expect_failure(read(8), CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  EXPECT_EQ(run(write(8)), Advance::done);
}

TEST_P(LocalEndpointTest, AReadOfAPeerWithoutReadDepthIsAnInvalidRequest) {
  peer_fields.responder_depth = 0;
  target.adapter().publish(peer_fields);
  expect_failure(read(8), CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth);
  expect_only_notice(NoticeKind::invalid_request);
  EXPECT_EQ(run(write(8)), Advance::done);
}

TEST_P(LocalEndpointTest, TheQueuePairIsJudgedBeforeTheKey) {
  peer_fields.access = 0;
  target.adapter().publish(peer_fields);
  SendWork request = write(8);
  request.rkey.value ^= 1;
  expect_failure(request, CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
}

TEST_P(LocalEndpointTest, MemoryOfTheTargetThatIsGoneIsARemoteOperationError) {
  const SendWork request = write(8);
  remote.vanish();
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_EQ(verdict.status, CompletionStatus::remote_operation_error);
  EXPECT_EQ(verdict.reason, Reason::remote_memory_gone);
  expect_only_notice(NoticeKind::operation_error);
  EXPECT_FALSE(touching());
}

TEST_P(LocalEndpointTest, AReadOfMemoryThatIsGoneIsARemoteOperationError) {
  const SendWork request = read(kSliceBytes);
  remote.vanish();
  EXPECT_EQ(run(request), Advance::failed);
  EXPECT_EQ(verdict.status, CompletionStatus::remote_operation_error);
  EXPECT_EQ(verdict.reason, Reason::remote_memory_gone);
  expect_only_notice(NoticeKind::operation_error);
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

std::string name_of(const testing::TestParamInfo<Reach>& info) {
  switch (info.param) {
    case Reach::own_memory:
      return "InProcess";
    case Reach::kernel:
      return "ByProcessVm";
    case Reach::mapping:
      break;
  }
  return "Mapped";
}
INSTANTIATE_TEST_SUITE_P(, LocalEndpointTest, testing::Values(Reach::own_memory, Reach::kernel, Reach::mapping),
                         name_of);

// ---- finding the peer ----

struct LocalEndpointPeer : testing::Test {
  LocalProcess requester{0x10};
  LocalProcess other{0x20};
  Qpn own = requester.allocate_qpn();
  Qpn peer = other.allocate_qpn();
  LocalEndpoint endpoint{requester.adapter(), requester.peers()};
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
