#include "local/peer.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>

#include <cstring>
#include <thread>

#include "local/backing.h"
#include "support/local_process.h"
#include "support/shared_memory.h"

namespace verbatim::local {
namespace {

using testing_support::LocalProcess;
using testing_support::Pages;

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

struct PeerTest : testing::Test {
  LocalProcess process{0x20};
  Adapter& adapter = process.adapter();
  const std::shared_ptr<Peer> peer = process.as_peer_elsewhere();

  void leave(uint32_t number) { adapter.leave_notice({.target = {number}, .source = {number}, .kind = 1}); }
  // The numbers of the notices that are new to the peer; `lost` how many it says it missed.
  std::vector<uint32_t> drain(uint64_t* lost = nullptr) {
    std::vector<uint32_t> seen;
    const uint64_t missed = peer->drain_notices([&](const NoticeFields& notice) {
      seen.push_back(notice.target.value);
      return true;
    });
    if (lost) *lost = missed;
    return seen;
  }

  // A region over `length` bytes of a file at `offset`, published.
  RegionFields file_region(const Pages& pages, uint64_t offset, uint64_t length, uint32_t access) {
    const OwnedBacking backing = *find_backing(pages.address() + offset, length).take();
    backings.push_back(backing);
    RegionFields region{.access = access,
                        .backing_fd = backing.backing().fd,
                        .iova = 0,
                        .length = length,
                        .address = pages.address() + offset,
                        .backing_device = backing.backing().device,
                        .backing_inode = backing.backing().inode,
                        .backing_offset = backing.backing().offset};
    region.key = adapter.publish_region(region).take();
    return region;
  }
  std::vector<OwnedBacking> backings;
};

TEST_F(PeerTest, RingingMakesTheDoorbellReadableAndNeverBlocks) {
  EXPECT_FALSE(readable(adapter.doorbell_fd()));
  peer->ring();
  EXPECT_TRUE(readable(adapter.doorbell_fd()));
  // As full as a counter can be: one more would block a descriptor without O_NONBLOCK.
  const uint64_t most = UINT64_MAX - 2;
  ASSERT_EQ(write(adapter.doorbell_fd(), &most, sizeof most), 8);
  peer->ring();
  EXPECT_TRUE(readable(adapter.doorbell_fd()));
}

TEST_F(PeerTest, IsDeadWhenTheAgentSaysSo) {
  EXPECT_FALSE(peer->dead());
  peer->mark_dead();
  EXPECT_TRUE(peer->dead());
}

TEST_F(PeerTest, IsDeadWhenTheKernelSaysSo) {
  adapter.liveness_word().store(4242);
  EXPECT_FALSE(peer->dead());
  adapter.liveness_word().store(FUTEX_OWNER_DIED);
  EXPECT_TRUE(peer->dead());
}

TEST_F(PeerTest, AProcessIsNeverItsOwnDeadPeer) {
  adapter.liveness_word().store(FUTEX_OWNER_DIED);
  EXPECT_FALSE(process.peers().self()->dead());
}

TEST_F(PeerTest, NoticesAreHandedOverOnceAndInOrder) {
  EXPECT_TRUE(drain().empty());
  for (uint32_t i = 1; i <= 3; ++i) leave(i);
  EXPECT_EQ(drain(), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_TRUE(drain().empty());
  leave(4);
  EXPECT_EQ(drain(), std::vector<uint32_t>{4});
}

TEST_F(PeerTest, ANoticeThatCannotBeJudgedYetComesAgainBeforeTheLaterOnes) {
  for (uint32_t i = 1; i <= 3; ++i) leave(i);
  std::vector<uint32_t> seen;
  peer->drain_notices([&](const NoticeFields& notice) {
    seen.push_back(notice.target.value);
    return notice.target.value != 2;
  });
  EXPECT_EQ(seen, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(drain(), (std::vector<uint32_t>{2, 3}));
}

TEST_F(PeerTest, AFullRingOfNoticesIsRead) {
  for (uint32_t i = 1; i <= kNoticeEntries; ++i) leave(i);
  uint64_t lost = 99;
  const std::vector<uint32_t> seen = drain(&lost);
  EXPECT_EQ(lost, 0u);
  ASSERT_EQ(seen.size(), kNoticeEntries);
  EXPECT_EQ(seen.front(), 1u);
  EXPECT_EQ(seen.back(), kNoticeEntries);
}

TEST_F(PeerTest, NoticesThatWereOverwrittenAreCounted) {
  leave(0);
  drain();
  for (uint32_t i = 1; i <= kNoticeEntries + 5; ++i) leave(i);
  uint64_t lost = 0;
  const std::vector<uint32_t> seen = drain(&lost);
  EXPECT_EQ(lost, 5u);
  ASSERT_EQ(seen.size(), kNoticeEntries);
  EXPECT_EQ(seen.front(), 6u);
  EXPECT_EQ(seen.back(), kNoticeEntries + 5);
}

TEST_F(PeerTest, APeerThatCountsItsNoticesBackwardsIsReadWithinBounds) {
  leave(1);
  drain();
  const_cast<Segment*>(testing_support::segment_of(adapter.view()))->header.notice_count.store(0);
  EXPECT_LE(drain().size(), kNoticeEntries);
  EXPECT_TRUE(drain().empty());
}

TEST_F(PeerTest, ANoticeItsWriterDiedInIsCountedAsLost) {
  Segment& segment = *const_cast<Segment*>(testing_support::segment_of(adapter.view()));
  leave(1);
  leave(2);
  // The first word of an entry is its sequence count, odd while it is being written.
  ++*reinterpret_cast<uint32_t*>(&segment.notices[0]);
  uint64_t lost = 0;
  EXPECT_EQ(drain(&lost), std::vector<uint32_t>{2});
  EXPECT_EQ(lost, 1u);
}

// A peer that is connected to us may refuse an operation before we have read who it is.
TEST_F(PeerTest, NoticesFromBeforeTheIntroductionAreRead) {
  leave(7);
  const std::shared_ptr<Peer> late = process.as_peer();
  std::vector<uint32_t> seen;
  const uint64_t lost = late->drain_notices([&](const NoticeFields& notice) {
    seen.push_back(notice.target.value);
    return true;
  });
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(seen, std::vector<uint32_t>{7});
}

TEST_F(PeerTest, WhatWasOverwrittenBeforeTheIntroductionIsNobodysLoss) {
  for (uint32_t i = 0; i < kNoticeEntries + 5; ++i) leave(i);
  const std::shared_ptr<Peer> late = process.as_peer();
  uint64_t seen = 0;
  EXPECT_EQ(late->drain_notices([&](const NoticeFields&) { return ++seen > 0; }), 0u);
  EXPECT_EQ(seen, uint64_t{kNoticeEntries});
}

TEST_F(PeerTest, NoticesWrittenWhileTheyAreReadArriveWholeAndInOrder) {
  constexpr uint32_t kNotices = 100'000;
  std::thread writer([&] {
    for (uint32_t i = 1; i <= kNotices; ++i) leave(i);
  });
  const std::shared_ptr<Peer> reader = process.as_peer();
  uint64_t seen = 0, lost = 0, torn = 0;
  uint32_t last = 0;
  while (last != kNotices)
    lost += reader->drain_notices([&](const NoticeFields& notice) {
      ++seen;
      torn += notice.target != notice.source;
      last = notice.target.value;
      return true;
    });
  writer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GT(seen, 0u);
}

TEST_F(PeerTest, PrivateMemoryIsNotMapped) {
  RegionFields region{.length = 4096, .address = 0x10000};
  region.key = adapter.publish_region(region).take();
  EXPECT_EQ(peer->mapping(region), nullptr);
}

TEST_F(PeerTest, AFileIsMappedOnceForARegion) {
  const Pages pages(3 * 4096, Pages::Kind::shared_file);
  const RegionFields region = file_region(pages, 100, 5000, access::kLocalWrite | access::kRemoteWrite);
  const auto mapping = peer->mapping(region);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->length(), 5000u);
  mapping->data()[0] = 0xab;
  mapping->data()[4999] = 0xcd;
  EXPECT_EQ(pages.data()[100], 0xab);
  EXPECT_EQ(pages.data()[5099], 0xcd);
  EXPECT_EQ(peer->mapping(region), mapping);
}

TEST_F(PeerTest, AnotherRegionUnderTheSameKeyIsMappedAnew) {
  const Pages pages(2 * 4096, Pages::Kind::shared_file);
  RegionFields region = file_region(pages, 0, 4096, access::kRemoteRead);
  const auto first = peer->mapping(region);
  region.backing_offset += 4096;
  region.address += 4096;
  const auto second = peer->mapping(region);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  pages.data()[4096] = 0x77;
  EXPECT_EQ(second->data()[0], 0x77);
}

TEST_F(PeerTest, AFileThatIsNotWhatThePeerSaysIsNotMapped) {
  const Pages pages(4096, Pages::Kind::shared_file);
  RegionFields region = file_region(pages, 0, 4096, access::kRemoteRead);
  ++region.backing_inode;
  EXPECT_EQ(peer->mapping(region), nullptr);
}

TEST_F(PeerTest, OurOwnMemoryNeedsNoMapping) {
  const Pages pages(4096, Pages::Kind::shared_file);
  EXPECT_EQ(process.peers().self()->mapping(file_region(pages, 0, 4096, access::kRemoteRead)), nullptr);
}

TEST_F(PeerTest, MappingsOfWithdrawnRegionsAreForgotten) {
  const Pages pages(4096, Pages::Kind::shared_file);
  std::weak_ptr<const PeerMapping> withdrawn, kept;
  const RegionFields staying = file_region(pages, 0, 64, access::kRemoteRead);
  kept = peer->mapping(staying);
  const RegionFields going = file_region(pages, 64, 64, access::kRemoteRead);
  withdrawn = peer->mapping(going);
  ASSERT_FALSE(withdrawn.expired());
  adapter.withdraw_region(going.key);
  for (int i = 0; i < 64; ++i) peer->mapping(file_region(pages, 0, 64, access::kRemoteRead));
  EXPECT_TRUE(withdrawn.expired());
  EXPECT_FALSE(kept.expired());
}

}  // namespace
}  // namespace verbatim::local
