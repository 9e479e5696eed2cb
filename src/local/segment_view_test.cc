#include "local/segment_view.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "support/local_process.h"

namespace verbatim::local {
namespace {

using testing_support::LocalProcess;

constexpr Incarnation kIncarnation{0x1234};

// A segment written by somebody who is no Adapter: every field is the test's.
class ForeignSegment {
 public:
  explicit ForeignSegment(size_t size = sizeof(Segment), int seals = F_SEAL_SHRINK | F_SEAL_GROW)
      : fd_(memfd_create("test-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(size) {
    EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    memory_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
    EXPECT_NE(memory_, MAP_FAILED);
    EXPECT_EQ(fcntl(fd_.get(), F_ADD_SEALS, seals), 0);
    SegmentHeader& header = segment().header;
    header.magic = kSegmentMagic;
    header.version = kSegmentVersion;
    header.incarnation = kIncarnation.value;
  }
  ~ForeignSegment() { munmap(memory_, size_); }

  int fd() const { return fd_.get(); }
  Segment& segment() { return *static_cast<Segment*>(memory_); }
  int map_error(Incarnation expected = kIncarnation) const { return SegmentView::map(fd(), expected).error(); }

 private:
  FileDescriptor fd_;
  size_t size_;
  void* memory_;
};

TEST(SegmentView, MapsASegmentOfTheExpectedIncarnation) {
  ForeignSegment foreign;
  EXPECT_EQ(foreign.map_error(), 0);
  EXPECT_EQ(foreign.map_error(Incarnation{kIncarnation.value + 1}), EPROTO);
}

TEST(SegmentView, RefusesAnotherSize) {
  EXPECT_EQ(ForeignSegment(sizeof(Segment) + 4096).map_error(), EPROTO);
  EXPECT_EQ(ForeignSegment(sizeof(Segment) - 4096).map_error(), EPROTO);
}

TEST(SegmentView, RefusesMemoryThatCouldShrinkUnderIt) {
  EXPECT_EQ(ForeignSegment(sizeof(Segment), 0).map_error(), EPROTO);
  EXPECT_EQ(ForeignSegment(sizeof(Segment), F_SEAL_GROW).map_error(), EPROTO);
}

TEST(SegmentView, RefusesAnotherMagicOrVersion) {
  ForeignSegment foreign;
  foreign.segment().header.magic ^= 1;
  EXPECT_EQ(foreign.map_error(), EPROTO);
  foreign.segment().header.magic ^= 1;
  ++foreign.segment().header.version;
  EXPECT_EQ(foreign.map_error(), EPROTO);
}

TEST(SegmentView, RefusesDescriptorsThatAreNoMemory) {
  const FileDescriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(SegmentView::map(null.get(), kIncarnation).error(), EPROTO);
  EXPECT_EQ(SegmentView::map(-1, kIncarnation).error(), EBADF);
}

TEST(SegmentView, ReadsThroughAMappingOfItsOwnWhatTheAdapterPublishes) {
  LocalProcess process(5);
  Adapter& adapter = process.adapter();
  const SegmentView view = SegmentView::map(adapter.segment_fd(), adapter.incarnation()).take();
  const Qpn qpn = process.allocate_qpn();
  adapter.publish({.qpn = qpn, .state = 2});
  const MemoryKey key = adapter.publish_region({.iova = 77, .length = 1}).take();
  adapter.leave_notice({.target = {8}, .source = {9}, .kind = 2});

  QueuePairFields queue_pair;
  RegionFields region;
  NoticeFields notice;
  ASSERT_TRUE(view.read(qpn, queue_pair));
  EXPECT_EQ(queue_pair.state, 2u);
  ASSERT_TRUE(view.read(key, region));
  EXPECT_EQ(region.iova, 77u);
  EXPECT_EQ(view.notice_count(), 1u);
  ASSERT_TRUE(view.read_notice(0, notice));
  EXPECT_EQ(notice.source, Qpn{9});
  EXPECT_EQ(view.entry_index(key), adapter.view().entry_index(key));
}

TEST(SegmentView, KeepsItsMappingWhenItIsMoved) {
  ForeignSegment foreign;
  foreign.segment().header.notice_count.store(42);
  SegmentView first = SegmentView::map(foreign.fd(), kIncarnation).take();
  const SegmentView second(std::move(first));
  { const SegmentView gone(std::move(first)); }
  EXPECT_EQ(second.notice_count(), 42u);
}

TEST(SegmentView, AnOwnerThatLiesAboutItsSlotsIsReadWithinBounds) {
  ForeignSegment foreign;
  foreign.segment().header.slot_count.store(UINT32_MAX);
  for (uint32_t i = 0; i < kMaxSlots; ++i) foreign.segment().header.slots[i].store(0xffff'0000u + i);
  const SegmentView view = SegmentView::map(foreign.fd(), kIncarnation).take();
  QueuePairFields seen;
  for (uint32_t slot = 0; slot < 0x1000; ++slot)
    EXPECT_FALSE(view.read(Qpn::of(Slot{static_cast<uint16_t>(slot)}, Qpn::kPerSlot - 1), seen));
}

TEST(SegmentView, AnEntryThatNamesAnotherQueuePairIsRefused) {
  ForeignSegment foreign;
  foreign.segment().header.slots[0].store(7);
  foreign.segment().header.slot_count.store(1);
  const SegmentView view = SegmentView::map(foreign.fd(), kIncarnation).take();
  const Qpn asked = Qpn::of(Slot{7}, 3);
  QueuePairFields seen;
  foreign.segment().queue_pairs[3].publish({.qpn = Qpn::of(Slot{7}, 4)});
  EXPECT_FALSE(view.read(asked, seen));
  foreign.segment().queue_pairs[3].publish({.qpn = asked});
  EXPECT_TRUE(view.read(asked, seen));
}

TEST(SegmentView, AWildEntryMaskStaysInTheTable) {
  ForeignSegment foreign;
  foreign.segment().header.entry_mask = UINT32_MAX;
  const SegmentView view = SegmentView::map(foreign.fd(), kIncarnation).take();
  RegionFields seen;
  for (uint32_t key : {1u, 0x100u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_LT(view.entry_index(MemoryKey{key}), kRegionEntries);
    EXPECT_FALSE(view.read(MemoryKey{key}, seen));
  }
}

TEST(SegmentView, ARegionOfTheZeroKeyIsNone) {
  ForeignSegment foreign;
  const SegmentView view = SegmentView::map(foreign.fd(), kIncarnation).take();
  foreign.segment().regions[view.entry_index(MemoryKey{0})].publish({.iova = 1, .length = 1});
  RegionFields seen;
  EXPECT_FALSE(view.read(MemoryKey{0}, seen));
}

TEST(SegmentView, SeesTheKernelsMarkOfDeath) {
  ForeignSegment foreign;
  const SegmentView view = SegmentView::map(foreign.fd(), kIncarnation).take();
  EXPECT_FALSE(view.owner_died());
  foreign.segment().header.liveness.store(12345);
  EXPECT_FALSE(view.owner_died());
  foreign.segment().header.liveness.store(12345 | FUTEX_OWNER_DIED);
  EXPECT_TRUE(view.owner_died());
}

TEST(SegmentView, NoticesWrapAroundTheRing) {
  LocalProcess process(5);
  for (uint32_t i = 0; i < kNoticeEntries + 3; ++i) process.adapter().leave_notice({.target = {i}});
  NoticeFields seen;
  ASSERT_TRUE(process.adapter().view().read_notice(kNoticeEntries + 2, seen));
  EXPECT_EQ(seen.target, Qpn{kNoticeEntries + 2});
  ASSERT_TRUE(process.adapter().view().read_notice(3, seen));
  EXPECT_EQ(seen.target, Qpn{3}) << "the oldest that is still there";
}

}  // namespace
}  // namespace verbatim::local
