#include "model/memory_region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "support/cancelled_thread.h"
#include "support/shared_memory.h"
#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::Pages;
using testing_support::TestDevice;

constexpr uint64_t kPage = 4096;
constexpr uint32_t kReadWrite = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;

struct MemoryRegionTest : testing::Test {
  TestDevice side{0x10};
  Pages pages{4 * kPage, Pages::Kind::private_memory};

  Result<std::unique_ptr<MemoryRegion>> register_memory(uint64_t address, uint64_t length, uint32_t rights,
                                                        uint64_t iova = 0x1000) {
    return MemoryRegion::register_memory(side.device, *side.pd, {address, length, iova, rights});
  }
  int error_of(uint64_t address, uint64_t length, uint32_t rights, uint64_t iova = 0x1000) {
    return register_memory(address, length, rights, iova).error();
  }
  bool published(MemoryKey key, local::RegionFields* fields = nullptr) {
    local::RegionFields unused;
    return side.process.adapter().view().read(key, fields ? *fields : unused);
  }
};

TEST_F(MemoryRegionTest, IsPublishedAsItWasAskedFor) {
  const auto region = register_memory(pages.address() + 5, 100, kReadWrite, 0x7777).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.pd, side.pd->id());
  EXPECT_EQ(fields.address, pages.address() + 5);
  EXPECT_EQ(fields.length, 100u);
  EXPECT_EQ(fields.iova, 0x7777u);
  EXPECT_EQ(fields.access, kReadWrite);
  EXPECT_EQ(fields.backing_fd, -1);
}

TEST_F(MemoryRegionTest, AFileBehindItIsPublishedToo) {
  const Pages file(4 * kPage, Pages::Kind::shared_file);
  const auto region = register_memory(file.address() + 100, kPage, kReadWrite).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_GE(fields.backing_fd, 0);
  EXPECT_EQ(fields.backing_offset, 100u);
}

TEST_F(MemoryRegionTest, RefusesAnEmptyOrWrappingRange) {
  EXPECT_EQ(error_of(pages.address(), 0, 0), EINVAL);
  EXPECT_EQ(error_of(UINT64_MAX - 10, 100, 0), EINVAL);
  EXPECT_EQ(error_of(pages.address(), 100, 0, UINT64_MAX - 10), EINVAL);
}

TEST_F(MemoryRegionTest, RefusesUnknownRightsAndIgnoresOptionalOnes) {
  EXPECT_EQ(error_of(pages.address(), 8, 1u << 10), EINVAL);
  const auto region = register_memory(pages.address(), 8, access::kLocalWrite | 1u << 20).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.access, access::kLocalWrite);
}

TEST_F(MemoryRegionTest, RefusesRemoteWritesWithoutLocalOnes) {
  EXPECT_EQ(error_of(pages.address(), 8, access::kRemoteWrite), EINVAL);
  EXPECT_EQ(error_of(pages.address(), 8, access::kRemoteAtomic), EINVAL);
  EXPECT_EQ(error_of(pages.address(), 8, access::kRemoteRead), 0);
}

TEST_F(MemoryRegionTest, OnDemandNeedsNoMemoryYetAndNamesNoFile) {
  const Pages file(kPage, Pages::Kind::shared_file);
  const auto of_file = register_memory(file.address(), kPage, kReadWrite | access::kOnDemand).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(of_file->key(), &fields));
  EXPECT_EQ(fields.backing_fd, -1) << "another mapping may be there at the time of an operation";
  pages.vanish();
  EXPECT_EQ(error_of(pages.address(), kPage, kReadWrite | access::kOnDemand), 0);
}

TEST_F(MemoryRegionTest, OnDemandMayBeTheWholeAddressSpace) {
  constexpr uint64_t kAll = MemoryRegion::kWholeAddressSpace;
  const auto all = register_memory(0, kAll, kReadWrite | access::kOnDemand, 0).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(all->key(), &fields));
  EXPECT_EQ(fields.length, kAll);
  EXPECT_EQ(error_of(0, kAll, kReadWrite, 0), EINVAL) << "not on demand";
  EXPECT_EQ(error_of(kPage, kAll, kReadWrite | access::kOnDemand, 0), EINVAL);
  EXPECT_EQ(error_of(0, kAll, kReadWrite | access::kOnDemand, kPage), EINVAL);
}

TEST_F(MemoryRegionTest, FlushGlobalIsForAllMemoryFlushPersistentForWhatOutlivesPower) {
  EXPECT_EQ(error_of(pages.address(), kPage, access::kFlushGlobal), 0);
  EXPECT_EQ(error_of(pages.address(), kPage, access::kFlushPersistent), EINVAL) << "anonymous";
  const Pages memfd(kPage, Pages::Kind::shared_file);
  EXPECT_EQ(error_of(memfd.address(), kPage, access::kFlushPersistent), EINVAL) << "a memfd is tmpfs";
}

// A file where the tests were built, if that is on a disk, mapped shared or private.
struct RegionOfAFileOnDisk : MemoryRegionTest {
  void SetUp() override {
    char path[] = "persistent-XXXXXX";
    file = FileDescriptor(mkostemp(path, O_CLOEXEC));
    unlink(path);
    struct statfs system;
    ASSERT_EQ(fstatfs(file.get(), &system), 0);
    if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the tests run in a tmpfs";
    ASSERT_EQ(ftruncate(file.get(), kPage), 0);
  }
  int flush_persistent_error(int sharing) {
    void* const memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, sharing, file.get(), 0);
    const int error = error_of(reinterpret_cast<uint64_t>(memory), kPage, kReadWrite | access::kFlushPersistent);
    munmap(memory, kPage);
    return error;
  }
  FileDescriptor file;
};

TEST_F(RegionOfAFileOnDisk, CanBeFlushedToPersistence) {
  EXPECT_EQ(flush_persistent_error(MAP_SHARED), 0);
  EXPECT_EQ(flush_persistent_error(MAP_PRIVATE), EINVAL) << "what is written there never reaches the file";
}

TEST_F(MemoryRegionTest, NullRegionGrantsNothingToPeers) {
  const auto region = MemoryRegion::register_null(side.device, *side.pd).take();
  local::RegionFields fields;
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.kind, local::RegionKind::null);
  EXPECT_EQ(fields.access, access::kLocalWrite);
  EXPECT_EQ(fields.length, UINT64_MAX);
  EXPECT_EQ(region->reregister({.access = 0}).error, EINVAL);
}

// ---- registering anew ----

TEST_F(MemoryRegionTest, ReregisteringChangesWhatIsAskedForAndKeepsTheKey) {
  const auto other_pd = ProtectionDomain::create(side.device).take();
  const auto region = register_memory(pages.address(), kPage, kReadWrite, 0x7000).take();
  local::RegionFields fields;

  ASSERT_TRUE(region->reregister({.access = access::kRemoteRead}).ok());
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.access, access::kRemoteRead);
  EXPECT_EQ(fields.iova, 0x7000u) << "only a change of the range moves it";

  ASSERT_TRUE(region->reregister({.pd = other_pd.get()}).ok());
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.pd, other_pd->id());
  EXPECT_EQ(fields.access, access::kRemoteRead);
  EXPECT_TRUE(other_pd->in_use());
  EXPECT_FALSE(side.pd->in_use());

  ASSERT_TRUE(region->reregister({.range = {{pages.address() + kPage, 100}}}).ok());
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.address, pages.address() + kPage);
  EXPECT_EQ(fields.iova, pages.address() + kPage);
  EXPECT_EQ(fields.length, 100u);
  EXPECT_EQ(fields.pd, other_pd->id());
}

TEST_F(MemoryRegionTest, ReregisteringFollowsTheNewMemorysFile) {
  const Pages file(kPage, Pages::Kind::shared_file);
  const auto region = register_memory(pages.address(), kPage, kReadWrite).take();
  local::RegionFields fields;
  ASSERT_TRUE(region->reregister({.range = {{file.address(), kPage}}}).ok());
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_GE(fields.backing_fd, 0);
  ASSERT_TRUE(region->reregister({.range = {{pages.address(), kPage}}}).ok());
  ASSERT_TRUE(published(region->key(), &fields));
  EXPECT_EQ(fields.backing_fd, -1);
}

TEST_F(MemoryRegionTest, ReregisteringThatFailsLeavesTheRegionAsItWas) {
  const auto region = register_memory(pages.address(), kPage, kReadWrite).take();
  const auto other_pd = ProtectionDomain::create(side.device).take();
  local::RegionFields before;
  ASSERT_TRUE(published(region->key(), &before));
  EXPECT_EQ(region->reregister({.pd = other_pd.get(), .range = {{8, 8}}}).error, EFAULT);
  EXPECT_EQ(region->reregister({.pd = other_pd.get(), .access = access::kRemoteWrite}).error, EINVAL);
  local::RegionFields after;
  ASSERT_TRUE(published(region->key(), &after));
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
  EXPECT_FALSE(other_pd->in_use());
}

TEST_F(MemoryRegionTest, ReregisteringWaitsForAPeerInTheMiddleOfASlice) {
  TestDevice peer(0x20);
  const Qpn target = side.process.allocate_qpn();
  peer.process.allocate_qpn();
  introduce(side.process, peer.process);
  const auto region = register_memory(pages.address(), 8, kReadWrite).take();
  const local::SegmentView& view = side.process.adapter().view();
  std::atomic<bool> touching{false}, ended{false};
  std::thread requester([&] {
    const local::TouchRecords::Guard touch(peer.process.adapter().touch_records(), 0,
                                           {target, view.entry_index(region->key())}, false);
    touching.store(true);
    local::RegionFields fields;
    do std::this_thread::yield();
    while (!view.read(region->key(), fields) || fields.access == kReadWrite);
    ended.store(true);
  });
  while (!touching.load()) std::this_thread::yield();
  EXPECT_TRUE(region->reregister({.access = access::kRemoteRead}).ok());
  EXPECT_TRUE(ended.load());
  requester.join();
}

// Also where it has to ask the kernel what is behind the memory.
TEST_F(MemoryRegionTest, IsRegisteredByAThreadThatIsBeingCancelled) {
  std::unique_ptr<MemoryRegion> region;
  EXPECT_TRUE(testing_support::is_not_cancelled_in(
      [&] { region = register_memory(pages.address(), kPage, kReadWrite).take(); }));
  EXPECT_TRUE(published(region->key()));
  pages.forbid_writing();
  EXPECT_TRUE(testing_support::is_not_cancelled_in(
      [&] { EXPECT_EQ(error_of(pages.address(), kPage, access::kLocalWrite), EFAULT); }));
}

TEST_F(MemoryRegionTest, RefusesMemoryThatIsNotThere) {
  munmap(pages.data() + kPage, kPage);
  EXPECT_EQ(error_of(pages.address(), kPage, kReadWrite), 0);
  EXPECT_EQ(error_of(pages.address(), kPage + 1, kReadWrite), EFAULT) << "its last byte is not there";
  EXPECT_EQ(error_of(pages.address() + kPage, 1, 0), EFAULT);
  EXPECT_EQ(error_of(pages.address() + 2 * kPage - 1, 2, 0), EFAULT) << "its first byte is not there";
  EXPECT_EQ(error_of(8, 8, 0), EFAULT);
}

TEST_F(MemoryRegionTest, RefusesTheLastPageOfTheAddressSpace) { EXPECT_EQ(error_of(UINT64_MAX - 100, 50, 0), EFAULT); }

TEST_F(MemoryRegionTest, MemoryThatCannotBeWrittenIsGoodForReadingOnly) {
  pages.forbid_writing();
  EXPECT_EQ(error_of(pages.address(), kPage, access::kRemoteRead), 0);
  EXPECT_EQ(error_of(pages.address(), kPage, access::kLocalWrite), EFAULT);
}

TEST_F(MemoryRegionTest, MemoryThatCannotBeReadIsGoodForNothing) {
  pages.vanish();
  EXPECT_EQ(error_of(pages.address(), kPage, 0), EFAULT);
}

TEST_F(MemoryRegionTest, TheEndOfAFileIsTheEndOfTheMemory) {
  Pages file(2 * kPage, Pages::Kind::shared_file);
  file.vanish();
  EXPECT_EQ(error_of(file.address(), kPage, kReadWrite), EFAULT);
}

TEST_F(MemoryRegionTest, CountsAsUserOfItsPdAndAgainstTheLimit) {
  TestDevice small(0x20, {.max_mr = 2});
  auto first = small.register_memory(pages.data(), 8, 0);
  auto second = small.register_memory(pages.data(), 8, 0);
  EXPECT_TRUE(small.pd->in_use());
  const MemoryRegion::Request request{pages.address(), 8, 0, 0};
  EXPECT_EQ(MemoryRegion::register_memory(small.device, *small.pd, request).error(), ENOMEM);
  first.reset();
  EXPECT_TRUE(MemoryRegion::register_memory(small.device, *small.pd, request).ok());
  EXPECT_TRUE(small.pd->in_use());
  second.reset();
  EXPECT_FALSE(small.pd->in_use());
}

TEST_F(MemoryRegionTest, IsGoneForPeersOnceItIsDestroyed) {
  auto region = register_memory(pages.address(), 8, 0).take();
  const MemoryKey key = region->key();
  region.reset();
  EXPECT_FALSE(published(key));
}

TEST_F(MemoryRegionTest, DestroyingItWaitsForAPeerInTheMiddleOfASlice) {
  TestDevice peer(0x20);
  const Qpn target = side.process.allocate_qpn();
  peer.process.allocate_qpn();
  introduce(side.process, peer.process);
  auto region = register_memory(pages.address(), 8, kReadWrite).take();
  const MemoryKey key = region->key();
  const local::SegmentView& view = side.process.adapter().view();
  std::atomic<bool> touching{false}, ended{false};
  std::thread requester([&] {
    const local::TouchRecords::Guard touch(peer.process.adapter().touch_records(), 0, {target, view.entry_index(key)},
                                           false);
    touching.store(true);
    while (published(key)) std::this_thread::yield();
    ended.store(true);
  });
  while (!touching.load()) std::this_thread::yield();
  region.reset();
  EXPECT_TRUE(ended.load());
  requester.join();
}

TEST_F(MemoryRegionTest, ThreadsMayRegisterAndDeregisterAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        auto region = side.register_memory(pages.data(), 8, 0);
        ASSERT_TRUE(published(region->key()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(side.pd->in_use());
}

}  // namespace
}  // namespace verbatim::model
