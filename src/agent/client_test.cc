#include "agent/client.h"

#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <new>

#include "agent/agent_test_support.h"
#include "support/descriptor_hoard.h"
#include "support/failing_allocation.h"

namespace verbatim {
namespace {

using agent::AgentThread;
using agent::BareMember;
using agent::becomes_readable;
using agent::kNoAgent;
using agent::Member;

class AgentClientTest : public testing::Test {
 protected:
  static constexpr Slot kOne{11}, kTwo{22}, kThree{33};

  static void introduce(Member& asker, Member& owner, Slot slot) {
    ASSERT_TRUE(asker.client_.introduce(slot).ok());
    asker.await_peers(1);
    owner.await_slots(1);
  }

  const AgentIdentity identity_ = agent::test_identity();
};

TEST_F(AgentClientTest, BothSidesOfAnIntroductionGetTheOthersMemory) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne), bob(identity_, kTwo);
  ASSERT_TRUE(alice.client_.start().ok());
  ASSERT_TRUE(bob.client_.start().ok());
  EXPECT_TRUE(bob.client_.start().ok());
  introduce(alice, bob, kTwo);
  ASSERT_EQ(alice.peers_.size(), 1u);
  EXPECT_EQ(alice.peers_[0].incarnation, bob.incarnation_);
  EXPECT_EQ(alice.peers_[0].pid, ::getpid());
  EXPECT_EQ(alice.peers_[0].slots, std::vector<Slot>{kTwo});
  EXPECT_TRUE(alice.peers_[0].knows_us);
  EXPECT_EQ(alice.peers_[0].segment_size, 4096u);
  EXPECT_EQ(Member::inode(alice.peers_[0].segment.get()), bob.segment_inode());
  ASSERT_EQ(bob.peers_.size(), 1u);
  EXPECT_EQ(bob.peers_[0].slots, std::vector<Slot>{kOne});
  EXPECT_FALSE(bob.peers_[0].knows_us);
  EXPECT_EQ(Member::inode(bob.peers_[0].segment.get()), alice.segment_inode());
  EXPECT_EQ(bob.slots_[0], std::pair(alice.incarnation_, kOne));
}

// Not each wish needs memory for its message: of many, some do.
TEST_F(AgentClientTest, AWishForWhichThereWasNoMemoryCanBeRepeated) {
  using testing_support::FailingAllocation;
  if (!FailingAllocation::kPossible) GTEST_SKIP() << "a sanitizer has the allocation to itself";
  constexpr unsigned kNodeOfTheWish = 1;
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  std::vector<Slot> failed;
  for (uint16_t slot = 100; slot < 200; ++slot) {
    try {
      const FailingAllocation failing(kNodeOfTheWish);
      EXPECT_TRUE(alice.client_.introduce({slot}).ok());
    } catch (const std::bad_alloc&) {
      failed.push_back({slot});
    }
  }
  ASSERT_FALSE(failed.empty());
  for (const Slot slot : failed) {
    SCOPED_TRACE(slot.value);
    Member bob(identity_, slot);
    ASSERT_TRUE(bob.client_.start().ok());
    introduce(alice, bob, slot);
    alice.peers_.clear();
  }
}

// Without that, the child would now and then find a container in the middle of a change.
TEST_F(AgentClientTest, AChildForkedBetweenPauseAndResumeMayDestroyItsCopy) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  std::jthread asks([&](const std::stop_token& stop) {
    for (uint16_t slot = 100; !stop.stop_requested(); slot = slot == 1000 ? 100 : slot + 1) {
      EXPECT_TRUE(alice.client_.introduce({slot}).ok());
      alice.client_.receive(alice);
    }
  });
  for (int round = 0; round < 100; ++round) {
    alice.client_.pause();
    const pid_t child = ::fork();
    alice.client_.resume();
    if (child == 0) {
      std::destroy_at(&alice.client_);
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "in round " << round;
  }
}

// A program may use up its descriptors between asking and being answered, and its peers do not ask it before they come.
TEST_F(AgentClientTest, OneIntroductionFindsRoomWhereThereAreNoDescriptorsLeft) {
  if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs a descriptor itself";
  AgentThread agent(identity_);
  Member alice(identity_, kOne), bob(identity_, kTwo);
  ASSERT_TRUE(alice.client_.start().ok());
  ASSERT_TRUE(bob.client_.start().ok());
  // By then the agent has taken what both have shown it. As await_turn(), but what is open stays so.
  BareMember first(identity_);
  first.expect<agent::Welcome>();
  BareMember second(identity_);
  second.expect<agent::Welcome>();
  {
    const testing_support::DescriptorHoard hoard;
    introduce(alice, bob, kTwo);
    ASSERT_EQ(alice.peers_.size(), 1u);
    EXPECT_EQ(Member::inode(alice.peers_[0].segment.get()), bob.segment_inode());
    EXPECT_EQ(alice.client_.introduce(kThree).error, EMFILE) << "there is no room for a second one";
  }
  EXPECT_TRUE(alice.client_.introduce(kThree).ok());
  Member carol(identity_, kThree);
  ASSERT_TRUE(carol.client_.start().ok());
  alice.await_peers(2);
  EXPECT_TRUE(alice.dead_.empty());
}

TEST_F(AgentClientTest, WithoutDescriptorsItIsNotValid) {
  if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs a descriptor itself";
  const FileDescriptor segment(::dup(0)), doorbell(::dup(0));
  const testing_support::DescriptorHoard hoard(1);
  const AgentClient client(identity_, kNoAgent, {{1}, {kOne}, segment.get(), 4096, doorbell.get()});
  EXPECT_FALSE(client.valid());
}

TEST_F(AgentClientTest, WishesFromBeforeTheStartAndForOwnersToComeAreKept) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  ASSERT_TRUE(alice.client_.start().ok());
  Member bob(identity_, kTwo);
  ASSERT_TRUE(bob.client_.start().ok());
  alice.await_peers(1);
  EXPECT_EQ(alice.peers_[0].incarnation, bob.incarnation_);
}

TEST_F(AgentClientTest, WhoAsksForAFreeSlotHearsSoEachTimeItAsks) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  for (size_t times = 1; times <= 3; ++times) {
    ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
    alice.await_unowned(times);
    EXPECT_EQ(alice.unowned_, std::vector(times, kTwo));
  }
  Member bob(identity_, kTwo);
  ASSERT_TRUE(bob.client_.start().ok());
  alice.await_peers(1);
  ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  agent::await_turn(identity_);
  alice.client_.receive(alice);
  EXPECT_EQ(alice.unowned_.size(), 3u);
}

TEST_F(AgentClientTest, WhoAsksAgainBeforeTheAnswerHasAskedOnce) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  for (int times = 0; times < 1000; ++times) ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  agent::await_turn(identity_);
  alice.client_.receive(alice);
  EXPECT_EQ(alice.unowned_, std::vector{kTwo});
}

TEST_F(AgentClientTest, TheNextAgentAnswersWhatTheFormerDidNot) {
  auto agent = std::make_unique<AgentThread>(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  alice.await_unowned(1);
  agent.reset();
  agent = std::make_unique<AgentThread>(identity_);
  alice.await_unowned(2);
}

TEST_F(AgentClientTest, WhoWantsEveryoneMeetsThemAllAndThoseWhoComeLater) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne), bob(identity_, kTwo);
  ASSERT_TRUE(bob.client_.start().ok());
  ASSERT_TRUE(alice.client_.start().ok());
  ASSERT_TRUE(alice.client_.introduce_everyone().ok());
  alice.await_everyone();
  ASSERT_EQ(alice.peers_.size(), 1u);
  EXPECT_EQ(alice.peers_[0].incarnation, bob.incarnation_);
  Member carol(identity_, kThree);
  ASSERT_TRUE(carol.client_.start().ok());
  alice.await_peers(2);
  EXPECT_EQ(alice.peers_[1].incarnation, carol.incarnation_);
}

TEST_F(AgentClientTest, WhoIsAloneHasMetEveryone) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.introduce_everyone().ok());
  ASSERT_TRUE(alice.client_.start().ok());
  alice.await_everyone();
  EXPECT_TRUE(alice.peers_.empty());
}

TEST_F(AgentClientTest, ANewSlotIsToldToAcquaintances) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne), bob(identity_, kTwo);
  ASSERT_TRUE(alice.client_.start().ok());
  ASSERT_TRUE(bob.client_.start().ok());
  introduce(alice, bob, kTwo);
  ASSERT_TRUE(alice.client_.introduce(kThree).ok());
  bob.client_.add_slot(kThree);
  alice.await_slots(1);
  EXPECT_EQ(alice.slots_[0], std::pair(bob.incarnation_, kThree));
  EXPECT_EQ(alice.peers_.size(), 1u);
}

TEST_F(AgentClientTest, AHandlerMayAskForTheNextIntroduction) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne), bob(identity_, kTwo), carol(identity_, kThree);
  for (Member* member : {&alice, &bob, &carol}) ASSERT_TRUE(member->client_.start().ok());
  alice.on_peer_hook = [&] { EXPECT_TRUE(alice.client_.introduce(kThree).ok()); };
  ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  alice.await_peers(2);
  EXPECT_EQ(alice.peers_[1].incarnation, carol.incarnation_);
}

TEST_F(AgentClientTest, AClientsEndIsToldToItsPeersOnce) {
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  auto bob = std::make_unique<Member>(identity_, kTwo);
  ASSERT_TRUE(bob->client_.start().ok());
  introduce(alice, *bob, kTwo);
  const Incarnation gone = bob->incarnation_;
  bob.reset();
  alice.await_dead(1);
  EXPECT_EQ(alice.dead_, std::vector<Incarnation>{gone});
  EXPECT_FALSE(becomes_readable(alice.client_.fd(), 0));
}

TEST_F(AgentClientTest, TheNextAgentLearnsWhoKnowsWhomAndWhatWasWished) {
  auto agent = std::make_unique<AgentThread>(identity_);
  Member alice(identity_, kOne), carol(identity_, kThree);
  auto bob = std::make_unique<Member>(identity_, kTwo);
  for (Member* member : {&alice, bob.get(), &carol}) ASSERT_TRUE(member->client_.start().ok());
  introduce(alice, *bob, kTwo);
  ASSERT_TRUE(alice.client_.introduce({44}).ok());
  agent::await_turn(identity_);
  agent.reset();
  agent = std::make_unique<AgentThread>(identity_);
  alice.client_.receive(alice);  // notices, and goes to the new one
  bob->client_.receive(*bob);
  carol.client_.receive(carol);
  agent::await_turn(identity_);
  EXPECT_TRUE(alice.refusals_.empty() && bob->refusals_.empty());
  alice.client_.receive(alice);
  EXPECT_EQ(alice.peers_.size(), 1u);  // nothing is introduced again
  EXPECT_TRUE(alice.slots_.empty() && alice.dead_.empty());

  carol.client_.add_slot({44});
  alice.await_peers(2);
  EXPECT_EQ(alice.peers_[1].incarnation, carol.incarnation_);
  const Incarnation gone = bob->incarnation_;
  bob.reset();
  alice.await_dead(1);
  EXPECT_EQ(alice.dead_, std::vector<Incarnation>{gone});
}

TEST_F(AgentClientTest, WithoutAnAgentItSaysWhyAndTriesAgainAtTheNextIntroduction) {
  Member alice(identity_, kOne);
  EXPECT_EQ(alice.client_.start().error, ENOENT);
  EXPECT_TRUE(alice.client_.refused());
  ASSERT_TRUE(alice.client_.introduce(kTwo).ok());
  alice.await_refusals(1);
  EXPECT_NE(alice.refusals_[0].find(kNoAgent), std::string::npos) << alice.refusals_[0];

  AgentThread agent(identity_);
  Member bob(identity_, kTwo);
  ASSERT_TRUE(bob.client_.start().ok());
  ASSERT_TRUE(alice.client_.introduce(kThree).ok());
  EXPECT_FALSE(alice.client_.refused());
  alice.await_peers(1);  // the earlier wish
  EXPECT_EQ(alice.peers_[0].incarnation, bob.incarnation_);
}

TEST_F(AgentClientTest, ARefusalOfTheAgentIsReportedInItsWords) {
  AgentThread agent(identity_, {.slot_grace = Duration::milliseconds(10)});
  Member alice(identity_, kOne), thief(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  agent::await_turn(identity_);
  ASSERT_TRUE(thief.client_.start().ok());
  thief.await_refusals(1);
  EXPECT_NE(thief.refusals_[0].find(describe(agent::Refusal::slot_taken)), std::string::npos) << thief.refusals_[0];
  EXPECT_TRUE(thief.client_.refused());
  EXPECT_FALSE(becomes_readable(thief.client_.fd(), 0));
}

// Counts, under a lock as a handler of two threads needs it.
class Counting : public AgentEvents {
 public:
  void on_peer(PeerProcess) override { add(peers_); }
  void on_peer_slot(Incarnation, Slot) override { add(slots_); }
  void on_peer_dead(Incarnation) override { add(dead_); }
  void on_unowned(Slot) override {}
  void on_everyone() override { ADD_FAILURE(); }
  void on_refused(std::string_view) override { ADD_FAILURE(); }
  size_t dead() const {
    const std::lock_guard lock(mutex_);
    return dead_;
  }
  size_t peers() const {
    const std::lock_guard lock(mutex_);
    return peers_;
  }

 private:
  void add(size_t& count) {
    const std::lock_guard lock(mutex_);
    ++count;
  }
  mutable std::mutex mutex_;
  size_t peers_ = 0, slots_ = 0, dead_ = 0;
};

TEST_F(AgentClientTest, ManyThreadsMayAskAndReceiveWhilePeersComeAndGo) {
  constexpr uint16_t kPeers = 40;
  AgentThread agent(identity_);
  Member alice(identity_, kOne);
  ASSERT_TRUE(alice.client_.start().ok());
  Counting events;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        becomes_readable(alice.client_.fd(), 10);
        alice.client_.receive(events);
      }
    });
  }
  threads.emplace_back([&] {
    for (uint16_t i = 0; i < kPeers; ++i) EXPECT_TRUE(alice.client_.introduce({static_cast<uint16_t>(100 + i)}).ok());
  });
  threads.emplace_back([&] {
    for (uint16_t i = 0; i < kPeers; ++i) {
      Member peer(identity_, {static_cast<uint16_t>(100 + i)});
      ASSERT_TRUE(peer.client_.start().ok());
      peer.await_peers(1);
      peer.await_slots(1);
    }
  });
  threads[2].join();
  threads[3].join();
  while (events.dead() < kPeers) std::this_thread::yield();
  done = true;
  threads[0].join();
  threads[1].join();
  EXPECT_EQ(events.peers(), kPeers);
}

}  // namespace
}  // namespace verbatim
