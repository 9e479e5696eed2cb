#include "local/touch_record.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "local/test_child.h"
#include "support/on_processor.h"
#include "support/pause.h"
#include "support/refused_call.h"

namespace verbatim::local {
namespace {

using testing_support::OnProcessor;
using testing_support::RandomPause;

constexpr TouchTarget kTarget{Qpn{0x123456}, 77};

// Waits as a revoker does; `give_up` is asked between looks and ends the wait for that touch.
void wait_for_touches(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches,
                      const std::function<bool()>& give_up) {
  for_each_ongoing_touch(records, matches, [&](const OngoingTouch& touch) {
    while (!touch.has_moved_on() && !give_up()) std::this_thread::yield();
  });
}

OngoingTouch::Actor only_actor(const TouchRecord* records) {
  std::vector<OngoingTouch::Actor> actors;
  for_each_ongoing_touch(
      records, [](TouchTarget) { return true; }, [&](const OngoingTouch& touch) { actors.push_back(touch.actor()); });
  return actors.at(0);
}

struct TouchRecordsTest : testing::Test {
  std::unique_ptr<TouchRecord[]> memory = std::make_unique<TouchRecord[]>(kTouchRecords);
  TouchRecords records{memory.get()};

  // Records that are active, by index.
  std::vector<uint32_t> active() const {
    std::vector<uint32_t> result;
    for (uint32_t i = 0; i < kTouchRecords; ++i)
      if (memory[i].word.load() & 1) result.push_back(i);
    return result;
  }
  // Waits for every touch whose target `matches`; `at_look` happens at each look in vain.
  int looks_until_quiet(const std::function<bool(TouchTarget)>& matches, const std::function<void(int)>& at_look) {
    int looks = 0;
    wait_for_touches(memory.get(), matches, [&] {
      at_look(looks++);
      return false;
    });
    return looks;
  }
};

TEST_F(TouchRecordsTest, ARecordIsActiveExactlyWhileItsGuardLives) {
  EXPECT_TRUE(active().empty());
  {
    const TouchRecords::Guard guard(records, 9, kTarget, false);
    EXPECT_EQ(active(), std::vector<uint32_t>{9});
    EXPECT_EQ(memory[9].target.load(), uint64_t{0x123456} << 32 | 77);
  }
  EXPECT_TRUE(active().empty());
  const TouchRecords::Guard again(records, 9 + kTouchRecords, kTarget, true);
  EXPECT_EQ(active(), std::vector<uint32_t>{9});
}

TEST_F(TouchRecordsTest, UsersWithTheSameHintUseDifferentRecords) {
  std::vector<std::unique_ptr<TouchRecords::Guard>> guards;
  for (uint32_t i = 0; i < kTouchRecords; ++i)
    guards.push_back(std::make_unique<TouchRecords::Guard>(records, kTouchRecords - 1, kTarget, false));
  EXPECT_EQ(active().size(), size_t{kTouchRecords});
  guards.clear();
  EXPECT_TRUE(active().empty());
}

TEST_F(TouchRecordsTest, OneUserMoreThanRecordsWaitsForOneToBeFree) {
  std::vector<std::unique_ptr<TouchRecords::Guard>> guards;
  for (uint32_t i = 0; i < kTouchRecords; ++i)
    guards.push_back(std::make_unique<TouchRecords::Guard>(records, 0, kTarget, false));
  std::thread one_more([&] { const TouchRecords::Guard guard(records, 3, kTarget, false); });
  guards.erase(guards.begin() + 100);
  one_more.join();
  EXPECT_EQ(active().size(), size_t{kTouchRecords - 1});
}

TEST_F(TouchRecordsTest, WaitingEndsWhenTheTouchEnds) {
  std::optional<TouchRecords::Guard> guard;
  guard.emplace(records, 5, kTarget, false);
  const int looks = looks_until_quiet([](TouchTarget) { return true; },
                                      [&](int look) {
                                        if (look == 3) guard.reset();
                                      });
  EXPECT_EQ(looks, 4);
}

TEST_F(TouchRecordsTest, TheLastRecordIsLookedAtToo) {
  std::optional<TouchRecords::Guard> guard;
  guard.emplace(records, kTouchRecords - 1, kTarget, false);
  EXPECT_EQ(looks_until_quiet([](TouchTarget) { return true; }, [&](int) { guard.reset(); }), 1);
}

TEST_F(TouchRecordsTest, EachActiveRecordIsWaitedForWithItsOwnTarget) {
  std::optional<TouchRecords::Guard> first, second, third;
  first.emplace(records, 1, TouchTarget{Qpn{1}, 10}, false);
  second.emplace(records, 2, TouchTarget{Qpn{2}, 20}, false);
  third.emplace(records, 3, TouchTarget{Qpn{3}, TouchTarget::kNoRegion}, false);
  std::vector<uint32_t> asked;
  const int looks = looks_until_quiet(
      [&](TouchTarget target) {
        if (asked.empty() || asked.back() != target.qpn.value) asked.push_back(target.qpn.value);
        EXPECT_EQ(target.region_entry, target.qpn.value == 3 ? TouchTarget::kNoRegion : target.qpn.value * 10);
        return target.qpn == Qpn{2};
      },
      [&](int) { second.reset(); });
  EXPECT_EQ(asked, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(looks, 1);
}

TEST_F(TouchRecordsTest, ATouchThatBeganAfterTheScanHoldsNobodyUp) {
  std::optional<TouchRecords::Guard> guard;
  guard.emplace(records, 5, kTarget, false);
  // A busy requester: as soon as one touch of the target ends, the next begins in the same record.
  const int looks = looks_until_quiet([](TouchTarget) { return true; },
                                      [&](int) {
                                        guard.reset();
                                        guard.emplace(records, 5, kTarget, false);
                                      });
  EXPECT_EQ(looks, 1);
}

TEST_F(TouchRecordsTest, WhoGivesUpStopsWaiting) {
  const TouchRecords::Guard guard(records, 5, kTarget, false);
  int looks = 0;
  wait_for_touches(
      memory.get(), [](TouchTarget) { return true; }, [&] { return ++looks == 7; });
  EXPECT_EQ(looks, 7);
}

TEST_F(TouchRecordsTest, ARecordNamesTheThreadThatTurnsBackAndWhetherItIsInASystemCall) {
  if (!notices_interruption()) GTEST_SKIP() << "no restartable sequences here";
  const auto actor = [&] { return only_actor(memory.get()); };
  const auto check = [&] {
    TouchRecords::Guard guard(records, 5, kTarget, false, Interrupted::turns_back);
    EXPECT_EQ(actor().thread, gettid());
    EXPECT_FALSE(actor().in_kernel);
    guard.enter_kernel();
    EXPECT_EQ(actor().thread, gettid());
    EXPECT_TRUE(actor().in_kernel);
  };
  check();
  std::thread(check).join();
  const TouchRecords::Guard guard(records, 5, kTarget, false);
  EXPECT_EQ(actor().thread, 0) << "of the same record, by who goes on";
  EXPECT_FALSE(actor().in_kernel);
}

TEST_F(TouchRecordsTest, AForkedChildsThreadIsItsOwn) {
  if (!notices_interruption()) GTEST_SKIP() << "no restartable sequences here";
  { const TouchRecords::Guard before(records, 5, kTarget, false, Interrupted::turns_back); }
  TestChild child([](TestChild::Talk&) {
    const auto own = std::make_unique<TouchRecord[]>(kTouchRecords);
    TouchRecords own_records(own.get());
    const TouchRecords::Guard guard(own_records, 5, kTarget, false, Interrupted::turns_back);
    return only_actor(own.get()).thread == gettid() ? 0 : 1;
  });
  EXPECT_EQ(child.join(), 0);
}

TEST(Membarrier, IsNotReliedOnWhereASandboxRefusesEitherHalf) {
  if (!register_membarrier()) GTEST_SKIP() << "no membarrier here";
  for (const uint32_t command :
       {uint32_t{MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED}, uint32_t{MEMBARRIER_CMD_GLOBAL_EXPEDITED}}) {
    TestChild child([&](TestChild::Talk& talk) {
      talk.say(testing_support::refuse_call(SYS_membarrier, command));
      talk.say(register_membarrier());
      return 0;
    });
    if (!child.hear()) GTEST_SKIP() << "no filter can be set here";
    EXPECT_FALSE(child.hear());
    EXPECT_EQ(child.join(), 0);
  }
}

// The whole protocol, with plain memory in the place of the target's, so that ThreadSanitizer judges too: whoever
// withdrew and settled owns the memory alone.
class TouchProtocol : public testing::TestWithParam<bool> {
 public:
  static constexpr int kRequesters = 2;
  static constexpr int kWords = 32;

  const bool light = GetParam();
  std::unique_ptr<TouchRecord[]> memory[kRequesters];
  std::unique_ptr<TouchRecords> records[kRequesters];
  RegionEntry entry{};
  uint64_t target[kRequesters][kWords] = {};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> touches{0};

  void SetUp() override {
    if (light && !register_membarrier()) GTEST_SKIP() << "no membarrier here";
    for (int i = 0; i < kRequesters; ++i) {
      memory[i] = std::make_unique<TouchRecord[]>(kTouchRecords);
      records[i] = std::make_unique<TouchRecords>(memory[i].get());
    }
  }

  void request(int who) {
    uint64_t value = 1;
    RandomPause pause(static_cast<uint32_t>(who + 1));
    while (!stop.load(std::memory_order_relaxed)) {
      // Mostly outside a touch, so that the revoker seldom waits for a requester that the scheduler has put aside.
      pause(2000);
      const TouchRecords::Guard guard(*records[who], 0, kTarget, light);
      RegionFields region;
      if (!entry.read(region) || region.key.value == 0) continue;
      for (uint64_t& word : target[who]) word = value;
      ++value;
      touches.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void settle() {
    heavy_fence(light);
    for (auto& one : memory)
      wait_for_touches(
          one.get(), [](TouchTarget seen) { return seen.region_entry == kTarget.region_entry; }, [] { return false; });
  }
};

TEST_P(TouchProtocol, NothingLandsAfterTheWithdrawnEntryHasSettled) {
  std::vector<std::thread> requesters;
  for (int i = 0; i < kRequesters; ++i) requesters.emplace_back([this, i] { request(i); });
  uint64_t landed = 0;
  const int rounds = 500;
  RandomPause pause(99);
  for (int round = 1; round <= rounds; ++round) {
    const uint64_t before = touches.load(std::memory_order_relaxed);
    entry.publish({.key = {static_cast<uint32_t>(round)}});
    // At least one touch, and then withdrawn at a random point of another.
    while (touches.load(std::memory_order_relaxed) == before) std::this_thread::yield();
    pause(1000);
    entry.publish({});
    settle();
    const uint64_t mine = ~uint64_t{0} - static_cast<uint64_t>(round);
    for (auto& area : target)
      for (uint64_t& word : area) word = mine;
    for (int look = 0; look < 20; ++look)
      for (auto& area : target)
        for (volatile uint64_t& word : area) landed += word != mine;
  }
  stop.store(true);
  for (std::thread& requester : requesters) requester.join();
  EXPECT_EQ(landed, 0u);
}

// The fences alone: both sides begin at once and look without waiting, so that what is in a store buffer counts.
TEST_P(TouchProtocol, EitherTheRequesterSeesTheWithdrawalOrTheRevokerSeesTheTouch) {
  constexpr int kRounds = 8000;
  std::atomic<int> begun{0}, touched{0}, scanned{0}, ended{0};
  const auto wait_for = [](const std::atomic<int>& step, int round) {
    for (int turns = 0; step.load(std::memory_order_acquire) < round; ++turns)
      if (turns > 1000) std::this_thread::yield();
  };
  std::vector<int> allowed(kRounds + 1), seen(kRounds + 1);
  std::thread requester([&] {
    const OnProcessor second(1);
    RandomPause pause(1);
    for (int round = 1; round <= kRounds; ++round) {
      RegionFields region;
      wait_for(begun, round);
      // The line is in both caches now, so that the other's next store to it stays long in its store buffer.
      entry.read(region);
      {
        pause(2000);
        const TouchRecords::Guard guard(*records[0], 0, kTarget, light);
        allowed[round] = entry.read(region) && region.key.value != 0;
        touched.store(round, std::memory_order_release);
        wait_for(scanned, round);
      }
      ended.store(round, std::memory_order_release);
    }
  });
  const OnProcessor first(0);
  RandomPause pause(2);
  for (int round = 1; round <= kRounds; ++round) {
    wait_for(ended, round - 1);
    entry.publish({.key = {1}});
    memory[0][0].word.load(std::memory_order_relaxed);  // as in the requester
    begun.store(round, std::memory_order_release);
    pause(3000);
    entry.publish({});
    heavy_fence(light);
    wait_for_touches(
        memory[0].get(), [](TouchTarget) { return true; }, [&] { return ++seen[round] > 0; });
    wait_for(touched, round);
    scanned.store(round, std::memory_order_release);
  }
  requester.join();
  int missed = 0;
  for (int round = 1; round <= kRounds; ++round) missed += allowed[round] && !seen[round];
  EXPECT_EQ(missed, 0) << "touches that neither side knew of";
}

INSTANTIATE_TEST_SUITE_P(, TouchProtocol, testing::Bool(), [](const testing::TestParamInfo<bool>& info) {
  return info.param ? "WithTheRevokersMembarrier" : "WithAFenceOnBothSides";
});

}  // namespace
}  // namespace verbatim::local
