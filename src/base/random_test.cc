#include "base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/cancelled_thread.h"

namespace verbatim {
namespace {

TEST(Random, NumbersDifferAndUseEveryBit) {
  std::set<uint64_t> seen;
  uint64_t ever_set = 0;
  uint64_t always_set = ~uint64_t{0};
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random_u64();
    EXPECT_TRUE(seen.insert(value).second);
    ever_set |= value;
    always_set &= value;
  }
  EXPECT_EQ(ever_set, ~uint64_t{0});
  EXPECT_EQ(always_set, 0u);
}

TEST(Random, NumbersAreDrawnByAThreadThatIsBeingCancelled) {
  EXPECT_TRUE(testing_support::is_not_cancelled_in([] { (void)random_u64(); }));
}

TEST(Random, BelowOneIsZero) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random_below(1), 0u);
}

TEST(Random, StaysBelowAnyBound) {
  for (uint32_t bound : {2u, 3u, 1000u, 0x80000000u, 0x80000001u, UINT32_MAX})
    for (int i = 0; i < 1000; ++i) ASSERT_LT(random_below(bound), bound);
}

// Each of ten values is expected 10,000 times with a deviation of 95; ten deviations are never seen by chance.
TEST(Random, EveryValueBelowTheBoundIsEquallyLikely) {
  std::vector<int> counts(10);
  for (int i = 0; i < 100'000; ++i) ++counts[random_below(10)];
  for (int count : counts) EXPECT_NEAR(count, 10'000, 950);
}

}  // namespace
}  // namespace verbatim
