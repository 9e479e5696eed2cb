#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace {

// As a C program may: the number need not be an enumerator.
ibv_rate rate(int number) { return static_cast<ibv_rate>(number); }

TEST(Rates, TheManualsExamplesHold) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_5_GBPS), 2);
  EXPECT_EQ(mult_to_ibv_rate(2), IBV_RATE_5_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
  EXPECT_EQ(mbps_to_ibv_rate(5000), IBV_RATE_5_GBPS);
}

TEST(Rates, EveryRateButNoLimitHasItsMegabitsAndBackAgain) {
  for (int number = IBV_RATE_2_5_GBPS; number <= IBV_RATE_1200_GBPS; ++number) {
    ASSERT_GT(ibv_rate_to_mbps(rate(number)), 0) << number;
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(rate(number))), number);
  }
}

TEST(Rates, AMultipleLeadsBackToItsRateAndIsCloseToItsMegabits) {
  int with_multiple = 0;
  for (int number = IBV_RATE_2_5_GBPS; number <= IBV_RATE_1200_GBPS; ++number) {
    const int mult = ibv_rate_to_mult(rate(number));
    if (mult < 0) continue;
    ++with_multiple;
    EXPECT_EQ(mult_to_ibv_rate(mult), number);
    EXPECT_NEAR(ibv_rate_to_mbps(rate(number)), mult * 2500, mult * 250) << number;
  }
  EXPECT_EQ(with_multiple, 15);
}

TEST(Rates, WhatIsNoRateIsMinusOneAndWhatIsNoNumberOfARateIsNoLimit) {
  for (const int number : {-1, 0, 1, 25, 31}) {
    EXPECT_EQ(ibv_rate_to_mult(rate(number)), -1) << number;
    EXPECT_EQ(ibv_rate_to_mbps(rate(number)), -1) << number;
  }
  for (const int number : {-1, 0, 3, 2499, 1'000'000}) {
    EXPECT_EQ(mult_to_ibv_rate(number), IBV_RATE_MAX) << number;
    EXPECT_EQ(mbps_to_ibv_rate(number), IBV_RATE_MAX) << number;
  }
}

}  // namespace
