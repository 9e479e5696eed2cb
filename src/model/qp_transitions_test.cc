#include "model/qp_transitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>

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

// ---- the other types, from what they lack of RC ----

constexpr QueuePairState kStates[] = {reset, init, rtr, rts, sqd, sqe, err};
constexpr uint32_t kEveryAttribute = (1u << 26) - 1;

constexpr uint32_t kRequesterOfReliable = kTimeout | kRetryCount | kRnrRetry | kInitiatorDepth;
constexpr uint32_t kResponderOfReliable = kResponderDepth | kMinRnrTimer;

// The attributes that a type has no use for, of those that RC takes, and what is particular to it besides.
struct Kin {
  QueuePairType type;
  uint32_t lacks;
  bool changes_port_in_sqd;
  bool has_send_queue_error;
};

class LikeReliable : public testing::TestWithParam<Kin> {
 protected:
  // What the type answers where RC answers with `required` and `optional`.
  void expect(QueuePairState from, QueuePairState to, uint32_t required, uint32_t optional) {
    for (uint32_t bit = 1; bit < 1u << 26; bit <<= 1) {
      if (bit == kState) continue;
      SCOPED_TRACE(testing::Message() << name(from) << " to " << name(to) << ", bit " << bit);
      EXPECT_EQ(answer(from, to, required & ~bit), required & bit ? EINVAL : 0);
      EXPECT_EQ(answer(from, to, required | bit), (required | optional) & bit ? 0 : EINVAL);
    }
    EXPECT_EQ(answer(from, to, required | optional), 0);
  }
  int answer(QueuePairState from, QueuePairState to, uint32_t mask) {
    return check_transition(GetParam().type, from, to, kState | mask).error;
  }
};

// What RC requires and allows between two states, found by asking.
struct Learned {
  uint32_t required = 0;
  uint32_t optional = 0;
};
std::optional<Learned> of_reliable(QueuePairState from, QueuePairState to) {
  for (uint32_t required : {0u, kToInit, kToRtr, kToRts}) {
    if (check(from, to, required) != 0) continue;
    Learned learned;
    for (uint32_t bit = 1; bit < 1u << 26; bit <<= 1) {
      if (bit == kState) continue;
      if ((required & bit) && check(from, to, required & ~bit) != 0)
        learned.required |= bit;
      else if (check(from, to, required | bit) == 0)
        learned.optional |= bit;
    }
    return learned;
  }
  return std::nullopt;
}

TEST_P(LikeReliable, EachTransitionTakesWhatRcTakesButWhatTheTypeLacks) {
  for (QueuePairState from : kStates)
    for (QueuePairState to : {init, rtr, rts, sqd}) {
      std::optional<Learned> learned = of_reliable(from, to);
      if (!learned) continue;
      learned->required &= ~GetParam().lacks;
      learned->optional &= ~GetParam().lacks;
      if (from == sqd && to == sqd && !GetParam().changes_port_in_sqd) learned->optional &= ~kPortNumber;
      expect(from, to, learned->required, learned->optional);
    }
}

TEST_P(LikeReliable, NothingElseIsAllowedButTheWayOutOfSendQueueError) {
  for (QueuePairState from : kStates)
    for (QueuePairState to : {init, rtr, rts, sqd, sqe}) {
      if (of_reliable(from, to)) continue;
      if (from == sqe && to == rts && GetParam().has_send_queue_error) {
        expect(from, to, 0, kCurrentState | kAccess);
        continue;
      }
      for (uint32_t mask : {0u, kToInit, kToRtr, kToRts, kEveryAttribute})
        EXPECT_EQ(answer(from, to, mask & ~GetParam().lacks), EINVAL) << name(from) << " to " << name(to);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Types, LikeReliable,
    testing::Values(Kin{QueuePairType::uc, kRequesterOfReliable | kResponderOfReliable, false, true},
                    Kin{QueuePairType::xrc_send, kResponderOfReliable, true, false},
                    Kin{QueuePairType::xrc_receive, kRetryCount | kRnrRetry | kInitiatorDepth, true, false}));

// ---- UD: no peer and no rights, but a queue key ----

struct DatagramStep {
  QueuePairState from, to;
  uint32_t required, optional;
};

constexpr DatagramStep kDatagramSteps[] = {
    {reset, init, kPkeyIndex | kPortNumber | kQkey, 0},
    {init, init, 0, kPkeyIndex | kPortNumber | kQkey},
    {init, rtr, 0, kPkeyIndex | kQkey},
    {rtr, rts, kSendPsn, kCurrentState | kQkey},
    {rts, rts, 0, kCurrentState | kQkey},
    {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0, kPkeyIndex | kQkey},
    {sqd, rts, 0, kCurrentState | kQkey},
    {sqe, rts, 0, kCurrentState | kQkey},
};

TEST(QpTransitions, OfDatagramsTakeEveryMaskThatIsRightAndNoOther) {
  for (QueuePairState from : kStates)
    for (QueuePairState to : {init, rtr, rts, sqd, sqe}) {
      const auto step = std::ranges::find_if(
          kDatagramSteps, [&](const DatagramStep& each) { return each.from == from && each.to == to; });
      // Every combination of what some step takes and of what no step does.
      constexpr uint32_t kTaken[] = {kPkeyIndex, kPortNumber, kQkey, kSendPsn, kCurrentState, kSqdNotify, kAccess};
      for (uint32_t combination = 0; combination < 1u << std::size(kTaken); ++combination) {
        uint32_t mask = 0;
        for (size_t i = 0; i < std::size(kTaken); ++i)
          if (combination >> i & 1) mask |= kTaken[i];
        const bool right = step != std::end(kDatagramSteps) && (mask & step->required) == step->required &&
                           (mask & ~(step->required | step->optional)) == 0;
        EXPECT_EQ(check_transition(QueuePairType::ud, from, to, kState | mask).error, right ? 0 : EINVAL)
            << name(from) << " to " << name(to) << ", mask " << mask;
        for (uint32_t foreign : {kAddress, kDestination, kPathMtu, kTimeout, kMinRnrTimer, kCapabilities})
          EXPECT_EQ(check_transition(QueuePairType::ud, from, to, kState | mask | foreign).error, EINVAL);
      }
    }
}

TEST(QpTransitions, OfEveryTypeGoToResetAndErrWithNothing) {
  for (QueuePairType type : {QueuePairType::uc, QueuePairType::ud, QueuePairType::xrc_send, QueuePairType::xrc_receive})
    for (QueuePairState from : kStates)
      for (QueuePairState to : {reset, err}) {
        EXPECT_EQ(check_transition(type, from, to, kState).error, 0);
        EXPECT_EQ(check_transition(type, from, to, kState | kQkey).error, EINVAL);
      }
}

TEST(QpTransitions, OfATypeThatIsNoneAreRefused) {
  EXPECT_EQ(check_transition(static_cast<QueuePairType>(5), reset, init, kToInit).error, EINVAL);
}

TEST(QpTransitions, AHalfOfXrcTakesNoNoticeOfTheOthersAttributes) {
  constexpr uint32_t kAll = ~uint32_t{0};
  EXPECT_EQ(kAll & ~meaningful(QueuePairType::xrc_send, kAll), kResponderDepth | kMinRnrTimer);
  EXPECT_EQ(kAll & ~meaningful(QueuePairType::xrc_receive, kAll), kInitiatorDepth | kRetryCount | kRnrRetry);
  for (QueuePairType type : {QueuePairType::rc, QueuePairType::uc, QueuePairType::ud})
    EXPECT_EQ(meaningful(type, kAll), kAll);
}

}  // namespace
}  // namespace verbatim::model
