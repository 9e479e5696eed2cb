#include "model/memory_advice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>

#include "model/memory_window.h"
#include "support/shared_memory.h"
#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::Pages;
using testing_support::TestDevice;

constexpr uint64_t kPage = 4096;

struct MemoryAdviceTest : testing::Test {
  TestDevice side{0x10};
  Pages pages{4 * kPage, Pages::Kind::private_memory};
  std::unique_ptr<MemoryRegion> region =
      side.register_memory(pages.data(), 4 * kPage, access::kLocalWrite | access::kOnDemand);

  int advise(const Sge& range, MemoryAdvice advice = MemoryAdvice::prefetch, const ProtectionDomain* pd = nullptr) {
    return model::advise(side.device, pd ? *pd : *side.pd, advice, {&range, 1}).error;
  }
  Sge range(uint64_t offset, uint32_t length) const { return {pages.address() + offset, length, region->key()}; }
  bool present(uint64_t page) const {
    unsigned char state = 0;
    return mincore(pages.data() + page * kPage, kPage, &state) == 0 && (state & 1);
  }
};

TEST_F(MemoryAdviceTest, PrefetchingMakesPagesPresent) {
  ASSERT_FALSE(present(1));
  EXPECT_EQ(advise(range(kPage + 5, 10), MemoryAdvice::prefetch_write), 0);
  EXPECT_TRUE(present(1));
  EXPECT_FALSE(present(2));
}

TEST_F(MemoryAdviceTest, PrefetchingWhatIsPresentFaultsNothingIn) {
  EXPECT_EQ(advise(range(0, 4 * kPage), MemoryAdvice::prefetch_present), 0);
  EXPECT_FALSE(present(0));
}

TEST_F(MemoryAdviceTest, RefusesWhatIsNoMemoryOnDemand) {
  EXPECT_EQ(model::advise(side.device, *side.pd, MemoryAdvice::prefetch, {}).error, EINVAL);
  const auto pinned = side.register_memory(pages.data(), kPage, 0);
  const auto window = MemoryWindow::allocate(side.device, *side.pd, WindowType::two).take();
  EXPECT_EQ(advise({pages.address(), 8, pinned->key()}), EINVAL);
  EXPECT_EQ(advise({pages.address(), 8, window->key()}), EINVAL);
  EXPECT_EQ(advise({pages.address(), 8, MemoryKey{region->key().value ^ 1}}), ENOENT);
}

TEST_F(MemoryAdviceTest, RefusesAnotherPdAndWritingToWhatIsReadOnly) {
  const auto other = ProtectionDomain::create(side.device).take();
  EXPECT_EQ(advise(range(0, 8), MemoryAdvice::prefetch, other.get()), EPERM);
  const auto read_only = side.register_memory(pages.data(), kPage, access::kOnDemand);
  EXPECT_EQ(advise({pages.address(), 8, read_only->key()}, MemoryAdvice::prefetch_write), EPERM);
  EXPECT_EQ(advise({pages.address(), 8, read_only->key()}), 0);
}

TEST_F(MemoryAdviceTest, RefusesRangesBeyondTheRegionOrWithoutMemory) {
  EXPECT_EQ(advise(range(4 * kPage - 1, 2)), EFAULT);
  EXPECT_EQ(advise({pages.address() - 1, 1, region->key()}), EFAULT);
  EXPECT_EQ(advise(range(4 * kPage, 0)), 0);
  munmap(pages.data() + kPage, kPage);
  EXPECT_EQ(advise(range(0, 2 * kPage)), EFAULT);
}

}  // namespace
}  // namespace verbatim::model
