#include "agent/patience.h"

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

constexpr Duration kTotal = Duration::milliseconds(120);

TEST(PatienceTest, IsOverAfterItsLength) {
  Patience patience(kTotal);
  int64_t waited = 0;
  while (!patience.over()) {
    const Duration wait = patience.next_wait();
    waited += wait.ns;
    patience.spend(wait, wait);
  }
  EXPECT_EQ(waited, kTotal.ns);
}

TEST(PatienceTest, TimeInWhichEverythingStoodStillDoesNotCount) {
  Patience patience(kTotal);
  patience.spend(Duration::milliseconds(3'600'000), patience.next_wait());
  EXPECT_FALSE(patience.over());
}

TEST(PatienceTest, AWaitThatASignalCutShortCountsAsItWas) {
  Patience patience(kTotal);
  for (int i = 0; i < 119; ++i) patience.spend(Duration::milliseconds(1), patience.next_wait());
  EXPECT_FALSE(patience.over());
  patience.spend(Duration::milliseconds(1), patience.next_wait());
  EXPECT_TRUE(patience.over());
}

}  // namespace
}  // namespace verbatim::agent
