#include "model/qp_transitions.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbatim::model {
namespace {

using namespace attribute;
using enum QueuePairState;

constexpr uint32_t kToInit = kState | kPkeyIndex | kPortNumber | kAccess;
constexpr uint32_t kToRtr = kState | kAddress | kPathMtu | kDestination | kReceivePsn | kResponderDepth | kMinRnrTimer;
constexpr uint32_t kToRts = kState | kTimeout | kRetryCount | kRnrRetry | kSendPsn | kInitiatorDepth;

int check(QueuePairState from, QueuePairState to, uint32_t mask) {
  return check_transition(QueuePairType::rc, from, to, mask).error;
}

TEST(QpTransitions, TheThreeStepsOfEveryProgramAreAllowed) {
  EXPECT_EQ(check(reset, init, kToInit), 0);
  EXPECT_EQ(check(init, rtr, kToRtr), 0);
  EXPECT_EQ(check(rtr, rts, kToRts), 0);
}

struct Step {
  QueuePairState from, to;
  uint32_t full;
};

class RequiredAttribute : public testing::TestWithParam<Step> {};

TEST_P(RequiredAttribute, EachOneMissingIsEinval) {
  const Step step = GetParam();
  for (uint32_t bit = 1; bit < 1u << 26; bit <<= 1) {
    if (bit == kState || !(step.full & bit)) continue;
    EXPECT_EQ(check(step.from, step.to, step.full & ~bit), EINVAL) << bit;
  }
}

TEST_P(RequiredAttribute, EachForeignOneIsEinval) {
  const Step step = GetParam();
  for (uint32_t bit : {kSqdNotify, kQkey, kCapabilities, kRateLimit})
    EXPECT_EQ(check(step.from, step.to, step.full | bit), EINVAL) << bit;
}

INSTANTIATE_TEST_SUITE_P(Steps, RequiredAttribute,
                         testing::Values(Step{reset, init, kToInit}, Step{init, rtr, kToRtr}, Step{rtr, rts, kToRts}));

TEST(QpTransitions, OptionalAttributesAreTakenWhereTheTableHasThem) {
  EXPECT_EQ(check(init, rtr, kToRtr | kAccess | kPkeyIndex | kAlternatePath), 0);
  EXPECT_EQ(check(rtr, rts, kToRts | kMinRnrTimer | kAccess | kCurrentState | kPathMigration), 0);
  EXPECT_EQ(check(init, init, kState | kAccess), 0);
  EXPECT_EQ(check(rts, rts, kState | kMinRnrTimer), 0);
  EXPECT_EQ(check(rts, sqd, kState | kSqdNotify), 0);
  EXPECT_EQ(check(sqd, sqd, kState | kTimeout | kAddress), 0);
  EXPECT_EQ(check(sqd, rts, kState), 0);
}

TEST(QpTransitions, EveryStateGoesToResetAndErrWithNothing) {
  for (QueuePairState from : {reset, init, rtr, rts, sqd, sqe, err}) {
    EXPECT_EQ(check(from, reset, kState), 0);
    EXPECT_EQ(check(from, err, kState), 0);
    EXPECT_EQ(check(from, err, kState | kAccess), EINVAL);
  }
}

TEST(QpTransitions, NoOtherPairOfStatesIsAllowedWithAnyOfTheUsualMasks) {
  const std::pair<QueuePairState, QueuePairState> allowed[] = {{reset, init}, {init, init}, {init, rtr}, {rtr, rts},
                                                               {rts, rts},    {rts, sqd},   {sqd, sqd},  {sqd, rts}};
  for (QueuePairState from : {reset, init, rtr, rts, sqd, sqe, err})
    for (QueuePairState to : {init, rtr, rts, sqd, sqe}) {
      if (std::find(std::begin(allowed), std::end(allowed), std::pair{from, to}) != std::end(allowed)) continue;
      for (uint32_t mask : {uint32_t{kState}, kToInit, kToRtr, kToRts})
        EXPECT_EQ(check(from, to, mask), EINVAL) << name(from) << " to " << name(to);
    }
}

}  // namespace
}  // namespace verbatim::model
