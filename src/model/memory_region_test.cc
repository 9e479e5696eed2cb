#include "model/memory_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

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

TEST_F(MemoryRegionTest, RefusesOnDemandPaging) {
  EXPECT_EQ(error_of(pages.address(), 8, access::kOnDemand), EOPNOTSUPP);
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
