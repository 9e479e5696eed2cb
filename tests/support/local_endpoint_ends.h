// Two ends of a LocalEndpoint with memory on both sides, for each way to the target's memory: the stage of its tests.
// Test code only.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "local/backing.h"
#include "local/local_endpoint.h"
#include "support/local_process.h"
#include "support/shared_memory.h"

namespace verbatim::testing_support {

// The endpoint is named without its layer here.
using namespace local;

inline constexpr uint64_t kMemory = 4 * 1024 * 1024;
inline constexpr uint64_t kRegion = 2 * 1024 * 1024;  // what is registered lies in the middle of the memory
inline constexpr uint64_t kBefore = kMemory / 4;
inline constexpr uint64_t kIova = 0x7000'0000'0123;
inline constexpr uint32_t kAllAccess = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;
inline constexpr PdId kOwnPd{11}, kPeerPd{22};

inline Gid gid(const char* text) {
  Gid value;
  inet_pton(AF_INET6, text, value.bytes.data());
  return value;
}
inline const Gid kOwnGid = gid("::ffff:10.0.0.1");
inline const Gid kPeerGid = gid("::ffff:10.0.0.2");

inline bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

// The three ways to the target's memory.
enum class Reach { own_memory, kernel, mapping };

class LocalEndpointEnds : public testing::TestWithParam<Reach> {
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
  LocalEndpoint endpoint{requester.adapter(), requester.peers(), requester.lanes()};
  std::vector<Sge> sges;
  Verdict verdict;
  uint64_t offset = 0;

  LocalEndpointEnds() {
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

inline std::string name_of(const testing::TestParamInfo<Reach>& info) {
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
inline auto every_reach() { return testing::Values(Reach::own_memory, Reach::kernel, Reach::mapping); }

}  // namespace verbatim::testing_support
