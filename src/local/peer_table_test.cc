#include "local/peer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "support/failing_allocation.h"
#include "support/local_process.h"

namespace verbatim::local {
namespace {

using testing_support::LocalProcess;

constexpr Slot kOwn{0x10}, kOther{0x20}, kOthersSecond{0x21}, kNobody{0x30};

struct PeerTableTest : testing::Test {
  LocalProcess process{kOwn.value};
  LocalProcess other{kOther.value};
  PeerTable& peers = process.peers();

  PeerTableTest() {
    process.allocate_qpn();
    other.allocate_qpn();
  }
  std::shared_ptr<Peer> meet_other() {
    process.meet(other);
    return peers.find(kOther);
  }
};

TEST_F(PeerTableTest, OurOwnSlotsAreOurs) {
  EXPECT_EQ(peers.find(kOwn), peers.self());
  EXPECT_TRUE(peers.self()->is_self());
  EXPECT_EQ(peers.owner(kOwn), peers.self());
  EXPECT_NE(peers.owner(kOther), peers.self());
}

TEST_F(PeerTableTest, KnowsASlotOnlyAfterTheIntroduction) {
  EXPECT_EQ(peers.find(kOther), nullptr);
  const std::shared_ptr<Peer> peer = meet_other();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->incarnation(), other.adapter().incarnation());
  EXPECT_EQ(peers.owner(kOther), peer);
  EXPECT_NE(peers.owner(kOwn), peer);
  EXPECT_NE(peers.owner(kNobody), peer);
}

// What it sends must be known for its; to reach it, it must know this process.
TEST_F(PeerTableTest, WhoDoesNotKnowUsYetOwnsItsSlotsAndIsNotFoundByThem) {
  const std::shared_ptr<Peer> peer = other.as_peer();
  peers.add(peer, {kOther}, false);
  EXPECT_TRUE(peers.was_last_owner(kOther, *peer));
  EXPECT_TRUE(peers.knows(peer->incarnation()));
  EXPECT_EQ(peers.find(kOther), nullptr);
  peers.add_slot(peer->incarnation(), kOther);
  EXPECT_EQ(peers.find(kOther), peer);
}

TEST_F(PeerTableTest, AsksToBeIntroducedOnlyToWhomItDoesNotKnow) {
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOther});
  meet_other();
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOther});
}

TEST_F(PeerTableTest, AsksForNobodyWhereNobodyCanBe) {
  for (uint16_t slot : {0, 0xfff}) {
    EXPECT_TRUE(peers.want(Slot{slot}).ok());
    EXPECT_TRUE(peers.ask_again(Slot{slot}).ok());
    EXPECT_FALSE(peers.awaits_answer(Slot{slot}));
  }
  EXPECT_TRUE(process.wishes().empty());
}

TEST_F(PeerTableTest, AwaitsTheAnswerToWhatItAsked) {
  process.answer(false);
  EXPECT_FALSE(peers.awaits_answer(kOther));
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_TRUE(peers.want(kNobody).ok());
  EXPECT_TRUE(peers.awaits_answer(kOther));
  peers.nobody_owns(kOther);
  EXPECT_FALSE(peers.awaits_answer(kOther));
  EXPECT_TRUE(peers.awaits_answer(kNobody));
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_TRUE(peers.awaits_answer(kOther)) << "it has asked anew";
  meet_other();
  EXPECT_FALSE(peers.awaits_answer(kOther));
  EXPECT_TRUE(peers.want(kOthersSecond).ok());
  peers.add_slot(other.adapter().incarnation(), kOthersSecond);
  EXPECT_FALSE(peers.awaits_answer(kOthersSecond));
  peers.nobody_answers();
  EXPECT_FALSE(peers.awaits_answer(kNobody));
}

// The introducer takes a slot for known until it hears of its owner's end.
TEST_F(PeerTableTest, AsksAgainForASlotThatWasWantedBeforeItsOwnersEndWasKnown) {
  process.answer(false);
  const std::shared_ptr<Peer> peer = meet_other();
  peers.add_slot(other.adapter().incarnation(), kOthersSecond);
  peer->mark_dead();
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOther});
  peers.remove(other.adapter().incarnation());
  EXPECT_EQ(process.wishes(), (std::vector{kOther, kOther}));
  EXPECT_TRUE(peers.awaits_answer(kOther));
  EXPECT_TRUE(peers.has_ended(kOther) && peers.has_ended(kOthersSecond)) << "whoever was connected must hear of it";
}

TEST_F(PeerTableTest, AwaitsNoAnswerWhereItCouldNotAsk) {
  process.answer_introductions({ECONNREFUSED});
  EXPECT_FALSE(peers.want(kOther).ok());
  EXPECT_FALSE(peers.awaits_answer(kOther));
  EXPECT_FALSE(peers.want_everyone().ok());
  EXPECT_FALSE(peers.awaits_everyone());
}

TEST_F(PeerTableTest, AwaitsEveryoneUntilTheyAreKnownOrNobodyAnswers) {
  process.answer(false);
  EXPECT_FALSE(peers.awaits_everyone());
  EXPECT_TRUE(peers.want_everyone().ok());
  EXPECT_TRUE(peers.awaits_everyone());
  peers.nobody_answers();
  EXPECT_FALSE(peers.awaits_everyone());
  EXPECT_FALSE(peers.await_everyone(Duration::milliseconds(1'000'000))) << "there is nothing to wait for";
  EXPECT_TRUE(peers.want_everyone().ok());
  EXPECT_TRUE(peers.awaits_everyone());
  peers.everyone_is_known();
  EXPECT_FALSE(peers.awaits_everyone());
  EXPECT_TRUE(peers.await_everyone(Duration{}));
}

TEST_F(PeerTableTest, SaysThatThisProcessIsWantedByItself) {
  EXPECT_TRUE(peers.want(kOwn).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOwn}) << "somebody must take its notices";
}

TEST_F(PeerTableTest, RemembersThatASlotsOwnerHasEndedUntilItIsWantedAnew) {
  EXPECT_FALSE(peers.has_ended(kOther));
  meet_other();
  EXPECT_FALSE(peers.has_ended(kOther));
  peers.remove(other.adapter().incarnation());
  EXPECT_TRUE(peers.has_ended(kOther));
  process.answer_introductions({EMFILE});
  EXPECT_FALSE(peers.want(kOther).ok());
  EXPECT_TRUE(peers.has_ended(kOther));
  process.answer_introductions(Status::success());
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_FALSE(peers.has_ended(kOther));
}

// Whoever asks again is connected, and must hear of an end that comes between its look and its question.
TEST_F(PeerTableTest, ToAskAgainForgetsNoEnd) {
  meet_other();
  peers.remove(other.adapter().incarnation());
  EXPECT_TRUE(peers.ask_again(kOther).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOther});
  EXPECT_TRUE(peers.has_ended(kOther));
}

TEST_F(PeerTableTest, PassesOnThatNobodyCanBeIntroduced) {
  process.answer_introductions({ECONNREFUSED});
  EXPECT_EQ(peers.want(kOther).error, ECONNREFUSED);
}

TEST_F(PeerTableTest, ASlotClaimedLaterIsThePeersToo) {
  const std::shared_ptr<Peer> peer = meet_other();
  EXPECT_EQ(peers.find(kOthersSecond), nullptr);
  peers.add_slot(other.adapter().incarnation(), kOthersSecond);
  EXPECT_EQ(peers.find(kOthersSecond), peer);
  peers.add_slot(Incarnation{1}, kNobody);
  EXPECT_EQ(peers.find(kNobody), nullptr) << "a slot of a stranger";
}

TEST_F(PeerTableTest, RemovingAPeerForgetsAllItsSlotsAndMarksItDead) {
  const std::shared_ptr<Peer> peer = meet_other();
  peers.add_slot(other.adapter().incarnation(), kOthersSecond);
  EXPECT_EQ(peers.remove(other.adapter().incarnation()), peer);
  EXPECT_TRUE(peer->dead());
  EXPECT_EQ(peers.find(kOther), nullptr);
  EXPECT_EQ(peers.find(kOthersSecond), nullptr);
  EXPECT_EQ(peers.remove(other.adapter().incarnation()), nullptr);
}

TEST_F(PeerTableTest, ADeadPeerIsNotFoundButStillOwnsItsSlots) {
  const std::shared_ptr<Peer> peer = meet_other();
  peer->mark_dead();
  EXPECT_EQ(peers.find(kOther), nullptr);
  EXPECT_EQ(peers.owner(kOther), peer);
  EXPECT_TRUE(peers.want(kOther).ok());
  EXPECT_EQ(process.wishes(), std::vector{kOther}) << "the slot may have a new owner";
}

TEST_F(PeerTableTest, ASlotThatWasTakenOverStaysWithItsNewOwner) {
  const std::shared_ptr<Peer> old = meet_other();
  LocalProcess successor(kOther.value);
  successor.allocate_qpn();
  process.meet(successor);
  const std::shared_ptr<Peer> young = peers.find(kOther);
  ASSERT_NE(young, old);
  EXPECT_NE(peers.owner(kOther), old);
  EXPECT_EQ(peers.remove(old->incarnation()), old);
  EXPECT_EQ(peers.find(kOther), young);
}

TEST_F(PeerTableTest, WhoeverChangesTheOwnerOfASlotChangesTheGeneration) {
  uint64_t before = peers.generation();
  const auto has_changed = [&] { return std::exchange(before, peers.generation()) != before; };
  const std::shared_ptr<Peer> peer = other.as_peer();
  peers.add(peer, {kOther}, false);
  EXPECT_TRUE(has_changed());
  peers.add_slot(peer->incarnation(), kOthersSecond);
  EXPECT_TRUE(peers.was_last_owner(kOthersSecond, *peer));
  EXPECT_TRUE(has_changed());
  peers.remove(peer->incarnation());
  EXPECT_TRUE(has_changed());
}

TEST_F(PeerTableTest, EveryoneIsThisProcessFirstAndWhoHasJustArrived) {
  process.arrives_late(other);
  EXPECT_EQ(peers.known().size(), 1u);
  const auto everyone = peers.everyone();
  ASSERT_EQ(everyone.size(), 2u);
  EXPECT_EQ(everyone[0], peers.self());
  EXPECT_EQ(everyone[1]->incarnation(), other.adapter().incarnation());
  EXPECT_EQ(process.refreshes(), 1);
}

// Each allocation in its coming fails once. Nobody waits for a peer whom everyone() does not name.
TEST_F(PeerTableTest, WhoCanBeFoundIsAmongEveryoneAlsoWhenMemoryEnds) {
  using testing_support::FailingAllocation;
  if (!FailingAllocation::kPossible) GTEST_SKIP() << "a sanitizer has the allocation to itself";
  bool failed = true;
  for (unsigned others = 0; failed; ++others) {
    try {
      const FailingAllocation failing(others);
      process.meet(other);
      failed = failing.has_come();
    } catch (const std::bad_alloc&) {
    }
    const PeerList known = peers.known();
    const std::shared_ptr<Peer> found = peers.find(kOther);
    EXPECT_TRUE(!found || std::ranges::find(known, found) != known.end()) << others;
    if (!failed) break;
    if (peers.knows(other.adapter().incarnation())) peers.remove(other.adapter().incarnation());
  }
  EXPECT_TRUE(peers.find(kOther));
}

TEST_F(PeerTableTest, PeersComeAndGoWhileOthersLook) {
  constexpr int kRounds = 2000;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> strangers{0};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i)
    lookers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const std::shared_ptr<Peer> peer = peers.find(kOther);
        if (peer && peer->incarnation() != other.adapter().incarnation()) strangers.fetch_add(1);
        for (const auto& known : peers.known()) known->dead();
      }
    });
  for (int round = 0; round < kRounds; ++round) {
    process.meet(other);
    const std::shared_ptr<Peer> removed = peers.remove(other.adapter().incarnation());
    ASSERT_TRUE(removed->dead());
  }
  stop.store(true);
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(strangers.load(), 0u);
}

}  // namespace
}  // namespace verbatim::local
