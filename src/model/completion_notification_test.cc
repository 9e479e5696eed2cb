#include "model/completion_notification.h"

#include <gtest/gtest.h>

#include "support/fake_clock.h"

namespace verbatim::model {
namespace {

using Owed = CompletionNotification::Owed;

constexpr Completion kUnsolicited{};
constexpr Completion kSolicited{.opcode = CompletionOpcode::receive, .solicited = true};
constexpr Completion kError{.status = CompletionStatus::flushed};

struct CompletionNotificationTest : testing::Test {
  testing_support::FakeClock clock;
  CompletionNotification notification;
  Owed on(const Completion& completion) { return notification.on_completion(completion, clock); }
};

TEST_F(CompletionNotificationTest, UnarmedOwesNothing) {
  for (const Completion& completion : {kUnsolicited, kSolicited, kError}) EXPECT_EQ(on(completion), Owed::nothing);
}

TEST_F(CompletionNotificationTest, EachArmingOwesOneEvent) {
  for (const Completion& completion : {kUnsolicited, kSolicited, kError}) {
    notification.arm(false);
    EXPECT_EQ(on(completion), Owed::event);
    EXPECT_FALSE(notification.armed());
    EXPECT_EQ(on(completion), Owed::nothing);
  }
}

TEST_F(CompletionNotificationTest, ArmedForSolicitedWaitsForThatOrAnError) {
  for (const Completion& completion : {kSolicited, kError}) {
    notification.arm(true);
    EXPECT_EQ(on(kUnsolicited), Owed::nothing);
    EXPECT_TRUE(notification.armed());
    EXPECT_EQ(on(completion), Owed::event);
    EXPECT_EQ(on(completion), Owed::nothing);
  }
}

TEST_F(CompletionNotificationTest, ArmingForEveryCompletionWidensAndSolicitedDoesNotNarrow) {
  notification.arm(true);
  notification.arm(false);
  EXPECT_EQ(on(kUnsolicited), Owed::event);
  notification.arm(false);
  notification.arm(true);
  EXPECT_EQ(on(kUnsolicited), Owed::event);
  notification.arm(true);
  EXPECT_EQ(on(kUnsolicited), Owed::nothing) << "the arming of before is used up";
}

// ---- moderated ----

struct ModeratedNotification : CompletionNotificationTest {
  static constexpr Duration kPeriod = Duration::microseconds(500);
  ModeratedNotification() {
    notification.moderate({3, kPeriod});
    notification.arm(false);
  }
};

TEST_F(ModeratedNotification, EnoughCompletionsMakeAnEvent) {
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  EXPECT_EQ(on(kUnsolicited), Owed::event);
  EXPECT_EQ(notification.due(), kNever);
}

TEST_F(ModeratedNotification, TheFirstOnesAgeMakesAnEventToo) {
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  const Instant due = clock.now() + kPeriod;
  EXPECT_EQ(notification.due(), due);
  clock.advance(Duration::microseconds(400));
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  EXPECT_EQ(notification.due(), due) << "a later completion put the event off";
  EXPECT_FALSE(notification.on_time(due + Duration::nanoseconds(-1)));
  EXPECT_TRUE(notification.on_time(due));
  EXPECT_FALSE(notification.on_time(due)) << "one event for one arming";
  EXPECT_FALSE(notification.armed());
}

TEST_F(ModeratedNotification, CountsAnewForEachArming) {
  on(kUnsolicited), on(kUnsolicited), on(kUnsolicited);
  notification.arm(false);
  EXPECT_EQ(on(kUnsolicited), Owed::held);
}

TEST_F(ModeratedNotification, AnErrorIsNotHeldBack) {
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  EXPECT_EQ(on(kError), Owed::event);
  EXPECT_EQ(notification.due(), kNever);
}

TEST_F(ModeratedNotification, NewRulesReleaseWhatWasHeld) {
  EXPECT_FALSE(notification.moderate({3, kPeriod}));
  EXPECT_EQ(on(kUnsolicited), Owed::held);
  EXPECT_TRUE(notification.moderate({0, {}}));
  EXPECT_FALSE(notification.armed());
}

TEST_F(ModeratedNotification, WithoutACountOrAPeriodEachCompletionMakesAnEvent) {
  for (const Moderation& none : {Moderation{3, {}}, Moderation{0, kPeriod}, Moderation{1, kPeriod}}) {
    notification.moderate(none);
    notification.arm(false);
    EXPECT_EQ(on(kUnsolicited), Owed::event);
  }
}

}  // namespace
}  // namespace verbatim::model
