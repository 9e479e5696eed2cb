#include "agent/registry.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace verbatim::agent {
namespace {

constexpr Incarnation kAlice{0xa}, kBob{0xb}, kCarol{0xc};
constexpr Slot kAliceSlot{1}, kBobSlot{2}, kCarolSlot{3}, kNewSlot{9};

// Writes down what is posted: "a<PEER b{2}" is PEER of Bob to Alice, who may use slot 2.
class RegistryTest : public testing::Test, public Mailbox {
 protected:
  static std::string name(Incarnation who) { return std::string(1, static_cast<char>('a' + who.value - 0xa)); }

  void post_peer(Incarnation to, const MemberRecord& whom, bool knows_us) override {
    std::string slots;
    if (knows_us) {
      for (Slot slot : whom.slots) slots += (slots.empty() ? "" : ",") + std::to_string(slot.value);
    }
    posted_.push_back(name(to) + "<PEER " + name(whom.incarnation) + "{" + slots + "}");
  }
  void post_peer_slot(Incarnation to, Incarnation whom, Slot slot) override {
    posted_.push_back(name(to) + "<SLOT " + name(whom) + " " + std::to_string(slot.value));
  }
  void post_dead(Incarnation to, Incarnation whom, pid_t pid) override {
    posted_.push_back(name(to) + "<DEAD " + name(whom) + " " + std::to_string(pid));
  }
  void post_unowned(Incarnation to, Slot slot) override {
    posted_.push_back(name(to) + "<UNOWNED " + std::to_string(slot.value));
  }
  void post_everyone(Incarnation to) override { posted_.push_back(name(to) + "<EVERYONE"); }

  void join(Incarnation who, Slot slot) {
    ASSERT_TRUE(registry_.join({.incarnation = who, .pid = pid(who), .slots = {slot}}).ok());
  }
  static pid_t pid(Incarnation who) { return static_cast<pid_t>(who.value + 100); }

  // Alice has asked for Bob and both have been told everything.
  void introduce_alice_to_bob() {
    join(kAlice, kAliceSlot);
    join(kBob, kBobSlot);
    registry_.introduce(kAlice, kBobSlot);
    registry_.accepted(kBob, kAlice);
    registry_.accepted(kAlice, kBob);
    take();
  }

  std::vector<std::string> take() { return std::exchange(posted_, {}); }

  using Posts = std::vector<std::string>;
  std::vector<std::string> posted_;
  Registry registry_{*this};
};

TEST_F(RegistryTest, NoSlotIsToldBeforeItsOwnersSocketHasAcceptedTheOther) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  EXPECT_EQ(take(), Posts{"b<PEER a{}"});
  registry_.accepted(kBob, kAlice);
  EXPECT_EQ(take(), Posts{"a<PEER b{2}"});
  registry_.accepted(kAlice, kBob);
  EXPECT_EQ(take(), Posts{"b<SLOT a 1"});
}

TEST_F(RegistryTest, TheRuleHoldsWhenBothAskAtOnce) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  registry_.introduce(kBob, kAliceSlot);
  EXPECT_EQ(take(), Posts{"b<PEER a{}"});
  registry_.accepted(kBob, kAlice);
  EXPECT_EQ(take().size(), 1u);
  registry_.accepted(kAlice, kBob);
  EXPECT_EQ(take(), Posts{"b<SLOT a 1"});
}

TEST_F(RegistryTest, AWishWaitsForTheOwnerOfItsSlot) {
  join(kAlice, kAliceSlot);
  registry_.introduce(kAlice, kBobSlot);
  EXPECT_EQ(take(), Posts{"a<UNOWNED 2"});
  join(kCarol, kCarolSlot);
  EXPECT_EQ(take(), Posts{});
  join(kBob, kBobSlot);
  EXPECT_EQ(take(), Posts{"b<PEER a{}"});
}

TEST_F(RegistryTest, AWishWaitsForASlotThatAProcessAddsLater) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kNewSlot);
  EXPECT_EQ(take(), Posts{"a<UNOWNED 9"});
  ASSERT_TRUE(registry_.add_slot(kBob, kNewSlot).ok());
  EXPECT_EQ(take(), Posts{"b<PEER a{}"});
  registry_.accepted(kBob, kAlice);
  EXPECT_EQ(take(), Posts{"a<PEER b{2,9}"});
}

TEST_F(RegistryTest, AcquaintancesAreToldOfANewSlotOnceAndStrangersAreNot) {
  introduce_alice_to_bob();
  join(kCarol, kCarolSlot);
  ASSERT_TRUE(registry_.add_slot(kBob, kNewSlot).ok());
  EXPECT_EQ(take(), Posts{"a<SLOT b 9"});
  registry_.introduce(kAlice, kNewSlot);
  registry_.introduce(kAlice, kBobSlot);
  registry_.introduce(kBob, kAliceSlot);
  EXPECT_EQ(take(), Posts{});
}

TEST_F(RegistryTest, NobodyIsIntroducedToItself) {
  join(kAlice, kAliceSlot);
  registry_.introduce(kAlice, kAliceSlot);
  EXPECT_TRUE(registry_.know(kAlice, kAlice, pid(kAlice)).ok());
  EXPECT_EQ(take(), Posts{});
}

TEST_F(RegistryTest, DeathIsToldToAcquaintancesAndToNobodyElse) {
  introduce_alice_to_bob();
  join(kCarol, kCarolSlot);
  registry_.died(kBob);
  EXPECT_EQ(take(), Posts{"a<DEAD b 111"});
  EXPECT_FALSE(registry_.is_present(kBob));
  registry_.died(kAlice);
  EXPECT_EQ(take(), Posts{});
}

TEST_F(RegistryTest, EveryQuestionForAFreeSlotIsAnswered) {
  join(kAlice, kAliceSlot);
  registry_.introduce(kAlice, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  EXPECT_EQ(take(), (Posts{"a<UNOWNED 2", "a<UNOWNED 2"}));
}

TEST_F(RegistryTest, DeathInTheMiddleOfAnIntroductionLeavesTheWishForTheSlotsNextOwner) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  take();
  registry_.died(kBob);
  EXPECT_EQ(take(), Posts{"a<UNOWNED 2"});  // Alice has not heard of Bob
  join(kCarol, kBobSlot);
  EXPECT_EQ(take(), Posts{"c<PEER a{}"});
}

TEST_F(RegistryTest, DeathOfTheAskerIsToldToWhomItWasAnnounced) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  registry_.accepted(kBob, kAlice);
  take();
  registry_.died(kAlice);
  EXPECT_EQ(take(), Posts{"b<DEAD a 110"});
}

TEST_F(RegistryTest, SlotsAndIncarnationsArePresentOnlyOnce) {
  join(kAlice, kAliceSlot);
  EXPECT_EQ(registry_.join({.incarnation = kBob, .pid = 1, .slots = {kBobSlot, kAliceSlot}}).error, EADDRINUSE);
  EXPECT_FALSE(registry_.is_present(kBob));
  EXPECT_EQ(registry_.join({.incarnation = kAlice, .pid = 1, .slots = {kBobSlot}}).error, EEXIST);
  EXPECT_EQ(registry_.add_slot(kAlice, kAliceSlot).error, EADDRINUSE);
  join(kBob, kBobSlot);
  EXPECT_EQ(registry_.add_slot(kBob, kAliceSlot).error, EADDRINUSE);
  registry_.died(kAlice);
  EXPECT_TRUE(registry_.add_slot(kBob, kAliceSlot).ok());
}

TEST_F(RegistryTest, AProcessHasAtMostSixteenSlots) {
  join(kAlice, kAliceSlot);
  for (uint16_t i = 0; i < 15; ++i) ASSERT_TRUE(registry_.add_slot(kAlice, {static_cast<uint16_t>(100 + i)}).ok());
  EXPECT_EQ(registry_.add_slot(kAlice, {200}).error, ENOSPC);
}

TEST_F(RegistryTest, AfterANewAgentOnlyWhatIsNewIsToldOnceBothHaveComeBack) {
  join(kAlice, kAliceSlot);
  ASSERT_TRUE(registry_.know(kAlice, kBob, pid(kBob)).ok());
  EXPECT_TRUE(registry_.is_known(kBob));
  EXPECT_FALSE(registry_.is_present(kBob));
  join(kBob, kBobSlot);
  EXPECT_EQ(take(), Posts{});  // Bob has not said that he knows Alice
  ASSERT_TRUE(registry_.know(kBob, kAlice, pid(kAlice)).ok());
  EXPECT_EQ(take(), (Posts{"b<SLOT a 1", "a<SLOT b 2"}));
}

TEST_F(RegistryTest, AnIntroductionThatTheFormerAgentDidNotFinishIsFinished) {
  join(kBob, kBobSlot);
  ASSERT_TRUE(registry_.know(kBob, kAlice, pid(kAlice)).ok());  // PEER(Alice) had come, PEER(Bob) had not
  join(kAlice, kAliceSlot);
  EXPECT_EQ(take(), Posts{});
  registry_.introduce(kAlice, kBobSlot);
  EXPECT_EQ(take(), Posts{"a<PEER b{2}"});
  registry_.accepted(kAlice, kBob);
  EXPECT_EQ(take(), Posts{"b<SLOT a 1"});
}

TEST_F(RegistryTest, WhoIsCutOffIsAbsentAndItsAcquaintancesHearOfItsDeath) {
  introduce_alice_to_bob();
  registry_.left(kBob);
  EXPECT_EQ(take(), Posts{});
  EXPECT_TRUE(registry_.is_known(kBob));
  EXPECT_FALSE(registry_.is_present(kBob));
  registry_.died(kBob);
  EXPECT_EQ(take(), Posts{"a<DEAD b 111"});
}

TEST_F(RegistryTest, WhoIsCutOffInTheMiddleOfAnIntroductionOwnsNothing) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce(kAlice, kBobSlot);
  take();
  registry_.left(kBob);
  EXPECT_EQ(take(), Posts{"a<UNOWNED 2"});
}

TEST_F(RegistryTest, WhoIsCutOffMayComeBack) {
  introduce_alice_to_bob();
  registry_.left(kBob);
  EXPECT_EQ(registry_.join({.incarnation = kBob, .pid = 1, .slots = {kBobSlot}}).error, EEXIST);
  join(kBob, kBobSlot);
  ASSERT_TRUE(registry_.know(kBob, kAlice, pid(kAlice)).ok());
  EXPECT_EQ(take(), Posts{"b<SLOT a 1"});  // Alice still has what she was told
}

TEST_F(RegistryTest, AMemberCannotClaimToKnowMoreProcessesThanThereCanBe) {
  join(kAlice, kAliceSlot);
  for (uint64_t i = 0; i < kLastSlot; ++i) ASSERT_TRUE(registry_.know(kAlice, {1000 + i}, 1).ok());
  EXPECT_EQ(registry_.know(kAlice, {9}, 1).error, ENOSPC);
  EXPECT_TRUE(registry_.know(kAlice, {1000}, 1).ok());
}

TEST_F(RegistryTest, WhoWishesForEveryoneIsIntroducedToEachByTheRule) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  join(kCarol, kCarolSlot);
  registry_.introduce_everyone(kAlice);
  EXPECT_EQ(take(), (Posts{"b<PEER a{}", "c<PEER a{}"}));
  registry_.accepted(kBob, kAlice);
  registry_.accepted(kCarol, kAlice);
  EXPECT_EQ(take(), (Posts{"a<PEER b{2}", "a<PEER c{3}"}));
  registry_.accepted(kAlice, kBob);
  EXPECT_EQ(take(), Posts{"b<SLOT a 1"});
  registry_.accepted(kAlice, kCarol);
  EXPECT_EQ(take(), (Posts{"c<SLOT a 1", "a<EVERYONE"}));
}

TEST_F(RegistryTest, TheWishForEveryoneMeetsThoseWhoComeLaterAndIsAnsweredOnce) {
  join(kAlice, kAliceSlot);
  registry_.introduce_everyone(kAlice);
  EXPECT_EQ(take(), Posts{"a<EVERYONE"});
  join(kBob, kBobSlot);
  EXPECT_EQ(take(), Posts{"b<PEER a{}"});
  registry_.accepted(kBob, kAlice);
  registry_.accepted(kAlice, kBob);
  EXPECT_EQ(take(), (Posts{"a<PEER b{2}", "b<SLOT a 1"}));
}

TEST_F(RegistryTest, EveryoneIsThereWhenTheLastWhoWasMissingHasDiedOrLeft) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  join(kCarol, kCarolSlot);
  registry_.introduce_everyone(kAlice);
  take();
  registry_.died(kBob);
  EXPECT_EQ(take(), Posts{});
  registry_.left(kCarol);
  EXPECT_EQ(take(), Posts{"a<EVERYONE"});
}

TEST_F(RegistryTest, TheWishForEveryoneEndsWithItsMember) {
  join(kAlice, kAliceSlot);
  join(kBob, kBobSlot);
  registry_.introduce_everyone(kAlice);
  take();
  registry_.died(kAlice);
  EXPECT_EQ(take(), Posts{"b<DEAD a 110"});
  join(kCarol, kCarolSlot);
  EXPECT_EQ(take(), Posts{});
}

}  // namespace
}  // namespace verbatim::agent
