#include "local/revocation.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "local/test_child.h"
#include "support/fake_clock.h"
#include "support/local_process.h"
#include "support/log_lines.h"
#include "support/pause.h"

namespace verbatim::local {
namespace {

using testing_support::FakeClock;
using testing_support::introduce;
using testing_support::LocalProcess;
using testing_support::LogLines;
using testing_support::RandomPause;
using testing_support::ScriptedClock;

struct RevocationTest : testing::Test {
  LocalProcess owner{0x10};
  LocalProcess requester{0x20};
  Qpn target = owner.allocate_qpn();
  MemoryKey key = owner.adapter().publish_region({.length = 1}).take();
  std::optional<TouchRecords::Guard> touch;

  RevocationTest() { requester.allocate_qpn(); }

  uint32_t entry() const { return const_cast<LocalProcess&>(owner).adapter().view().entry_index(key); }
  void begin(LocalProcess& by, TouchTarget what) { touch.emplace(by.adapter().touch_records(), 1, what, false); }

  // How often settle() found that it has to wait, when the touch ends at the third time. There is one look at the
  // clock before all waits, and one each time.
  template <class Settle>
  int waits(Settle&& settle, std::function<void()> at_third = {}) {
    const ScriptedClock clock([&](int look) {
      if (look == 3) at_third ? at_third() : touch.reset();
      // Whoever waits for what he need not would wait for ever.
      if (look > 100) touch.reset();
      return Instant{0};
    });
    settle(clock);
    return clock.looks() - 1;
  }
  int region_waits(std::function<void()> at_third = {}) {
    return waits([&](const Clock& clock) { settle_region(owner.adapter(), owner.peers(), clock, key); }, at_third);
  }
  int queue_pair_waits(Qpn qpn) {
    return waits([&](const Clock& clock) { settle_queue_pair(owner.adapter(), owner.peers(), clock, qpn); });
  }
};

TEST_F(RevocationTest, RegionWaitsForAPeerThatIsTouchingIt) {
  introduce(owner, requester);
  begin(requester, {target, entry()});
  EXPECT_GE(region_waits(), 2);
  EXPECT_FALSE(touch.has_value());
}

TEST_F(RevocationTest, RegionDoesNotWaitForTouchesOfOtherRegions) {
  introduce(owner, requester);
  begin(requester, {target, entry() + 1});
  EXPECT_EQ(region_waits(), 0);
  begin(requester, {target, TouchTarget::kNoRegion});
  EXPECT_EQ(region_waits(), 0);
}

TEST_F(RevocationTest, RegionDoesNotWaitForTouchesOfTheSameEntryInAnotherProcess) {
  introduce(owner, requester);
  begin(requester, {Qpn::of(Slot{0x30}, 5), entry()});
  EXPECT_EQ(region_waits(), 0);
}

TEST_F(RevocationTest, RegionWaitsForOurOwnOperationsWhateverTheirTarget) {
  introduce(owner, requester);
  begin(owner, {Qpn::of(Slot{0x20}, 5), 12345});
  EXPECT_GE(region_waits(), 2);
}

TEST_F(RevocationTest, RegionWaitsForAPeerWhoseIntroductionWasNotReadYet) {
  owner.arrives_late(requester);
  begin(requester, {target, entry()});
  EXPECT_GE(region_waits(), 2);
  EXPECT_EQ(owner.refreshes(), 1);
}

TEST_F(RevocationTest, QueuePairWaitsForTouchesThroughItWhateverTheRegion) {
  introduce(owner, requester);
  begin(requester, {target, TouchTarget::kNoRegion});
  EXPECT_GE(queue_pair_waits(target), 2);
  begin(owner, {target, entry()});
  EXPECT_GE(queue_pair_waits(target), 2);
}

TEST_F(RevocationTest, QueuePairDoesNotWaitForTouchesThroughOthers) {
  introduce(owner, requester);
  begin(requester, {Qpn{target.value ^ 1}, entry()});
  EXPECT_EQ(queue_pair_waits(target), 0);
}

// A dying process is known to be dead while some of its threads may still be copying.
TEST_F(RevocationTest, APeerThatDiesInTheMiddleIsWaitedForUntilItsLastThreadHasGone) {
  TestChild child([](TestChild::Talk& talk) { return static_cast<int>(talk.hear()); });
  const auto peer = std::make_shared<Peer>(SegmentView(testing_support::segment_of(requester.adapter().view())),
                                           requester.adapter().incarnation(), child.pid(), FileDescriptor(dup(0)));
  owner.peers().add(peer, requester.adapter().slots());
  begin(requester, {target, entry()});
  int looks_when_dead = 0;
  const ScriptedClock clock([&](int look) {
    if (look == 4) peer->mark_dead();
    if (look == 10) {
      looks_when_dead = look;
      kill(child.pid(), SIGKILL);
    }
    return Instant{0};
  });
  settle_region(owner.adapter(), owner.peers(), clock, key);
  EXPECT_EQ(looks_when_dead, 10) << "it was given up although the process lived";
  EXPECT_TRUE(touch.has_value());
  EXPECT_TRUE(peer->gone());
  owner.peers().remove(requester.adapter().incarnation());
}

TEST_F(RevocationTest, WindowWaitsForTouchesThroughItAndNoOthers) {
  introduce(owner, requester);
  const auto window_waits = [&] {
    return waits([&](const Clock& clock) { settle_window(owner.adapter(), owner.peers(), clock, key); });
  };
  begin(requester, {target, entry()});
  EXPECT_GE(window_waits(), 2);
  begin(owner, {target, entry()});
  EXPECT_GE(window_waits(), 2) << "our own requests to ourselves";
  begin(requester, {target, entry() + 1});
  EXPECT_EQ(window_waits(), 0);
  begin(owner, {Qpn::of(Slot{0x20}, 5), entry()});
  EXPECT_EQ(window_waits(), 0) << "the same entry of another process";
}

TEST_F(RevocationTest, SaysOnceWhomItWaitsForAfter100Milliseconds) {
  introduce(owner, requester);
  begin(requester, {target, entry()});
  LogLines lines(LogLevel::warn);
  std::vector<int> lines_at_look;
  // The wait begins at 0 ms; it is said at 120 ms, after the third look.
  const ScriptedClock clock([&](int look) {
    lines_at_look.push_back(lines.count(std::to_string(getpid())));
    if (look == 4) touch.reset();
    return Instant{} + Duration::milliseconds(60) * look;
  });
  settle_region(owner.adapter(), owner.peers(), clock, key);
  EXPECT_EQ(lines.count("waiting for process " + std::to_string(getpid())), 1);
  EXPECT_EQ(lines_at_look, (std::vector<int>{0, 0, 0, 1, 1, 1}));
}

// A peer that is another process, and in the middle of touching the region by one of its threads.
struct RevocationOfAProcess : RevocationTest {
  TestChild child;
  std::shared_ptr<Peer> peer;
  int64_t over = -1;  // when the wait was, in milliseconds after it began

  explicit RevocationOfAProcess(std::function<int(TestChild::Talk&)> run = listen) : child(std::move(run)) {
    peer = std::make_shared<Peer>(SegmentView(testing_support::segment_of(requester.adapter().view())),
                                  requester.adapter().incarnation(), child.pid(), FileDescriptor(dup(0)));
    owner.peers().add(peer, requester.adapter().slots());
    begin(requester, {target, entry()});
  }
  ~RevocationOfAProcess() override {
    owner.peers().remove(requester.adapter().incarnation());
    kill(child.pid(), SIGKILL);
  }
  static int listen(TestChild::Talk& talk) { return static_cast<int>(talk.hear()); }
  static int spin(TestChild::Talk&) {
    for (volatile bool go_on = true; go_on;) {
    }
    return 0;
  }

  // What the record says of who touches. (The adapter's own side of the mapping can be written.)
  void act(pid_t thread, bool in_kernel) {
    for (uint32_t i = 0; i < kTouchRecords; ++i) {
      auto& record = const_cast<TouchRecord&>(requester.adapter().view().touch_records()[i]);
      if (record.word.load() & 1) record.actor.store(uint64_t{in_kernel} << 32 | static_cast<uint32_t>(thread));
    }
  }
  // Each look at the clock is a millisecond later. Something happens after half a second, and after a second the touch
  // ends.
  bool ends_by_itself(const std::function<void()>& halfway = [] {}) {
    const ScriptedClock clock([&](int look) {
      if (look == 500) halfway();
      if (look == 1000) touch.reset();
      return Instant{} + Duration::milliseconds(look);
    });
    settle_region(owner.adapter(), owner.peers(), clock, key);
    over = clock.looks();
    return touch.has_value();
  }
  void await_state(char letter) {
    while (thread_state(child.pid(), child.pid()).letter != letter) std::this_thread::yield();
  }
};

TEST_F(RevocationOfAProcess, OneThatIsStoppedIsWaitedForATenthOfASecond) {
  kill(child.pid(), SIGSTOP);
  await_state('T');
  for (const bool in_kernel : {false, true}) {
    act(child.pid(), in_kernel);
    EXPECT_TRUE(ends_by_itself()) << in_kernel;
    EXPECT_GT(over, 100);
    EXPECT_LT(over, 110);
  }
}

TEST_F(RevocationOfAProcess, OneThatCannotBeToldOfInterruptionsIsWaitedForToItsEnd) {
  kill(child.pid(), SIGSTOP);
  await_state('T');
  act(0, false);
  EXPECT_FALSE(ends_by_itself());
}

TEST_F(RevocationOfAProcess, OneThatSleepsElsewhereWillTurnBackToo) {
  await_state('S');
  act(child.pid(), false);
  EXPECT_TRUE(ends_by_itself());
  if (!system_call_of(child.pid(), child.pid())) GTEST_SKIP() << "other processes' system calls cannot be seen here";
  act(child.pid(), true);
  EXPECT_TRUE(ends_by_itself()) << "it says that it is in a call, and sleeps in another";
}

TEST_F(RevocationOfAProcess, AThreadThatIsNotThereTouchesNothing) {
  act(gettid(), true);
  EXPECT_TRUE(ends_by_itself());
  EXPECT_GT(over, 100);
}

struct RevocationOfABusyProcess : RevocationOfAProcess {
  RevocationOfABusyProcess() : RevocationOfAProcess(spin) {}
};

TEST_F(RevocationOfABusyProcess, OneThatRunsIsWaitedForUntilItWasInterruptedAndInACallToItsEnd) {
  act(child.pid(), true);
  EXPECT_FALSE(ends_by_itself());
  begin(requester, {target, entry()});
  act(child.pid(), false);
  EXPECT_TRUE(ends_by_itself([&] {
    kill(child.pid(), SIGSTOP);
    await_state('T');
    kill(child.pid(), SIGCONT);
  }));
}

TEST_F(RevocationTest, OurOwnThreadsAreWaitedForToTheEnd) {
  touch.emplace(owner.adapter().touch_records(), 1, TouchTarget{target, entry()}, false, Interrupted::turns_back);
  const ScriptedClock clock([&](int look) {
    if (look == 300) touch.reset();
    return Instant{} + Duration::milliseconds(look);
  });
  settle_region(owner.adapter(), owner.peers(), clock, key);
  EXPECT_GT(clock.looks(), 300);
}

// The contract of deregistration, with requesters that are other adapters over the same mapping.
TEST(Revocation, AWithdrawnRegionIsNeverWrittenOnceItHasSettled) {
  constexpr int kRequesters = 2, kRounds = 500, kWords = 64;
  LocalProcess owner(0x10);
  const Qpn target = owner.allocate_qpn();
  std::vector<std::unique_ptr<LocalProcess>> requesters;
  for (int i = 0; i < kRequesters; ++i) {
    requesters.push_back(std::make_unique<LocalProcess>(static_cast<uint16_t>(0x20 + i)));
    requesters.back()->allocate_qpn();
    introduce(owner, *requesters.back());
  }
  uint64_t memory[kRequesters][kWords] = {};
  std::atomic<uint32_t> key{0};
  std::atomic<uint64_t> touches{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kRequesters; ++i)
    threads.emplace_back([&, i] {
      const auto peer = requesters[i]->peers().find(Slot{0x10});
      const SegmentView& view = peer->view();
      RandomPause pause(static_cast<uint32_t>(i + 1));
      while (!stop.load(std::memory_order_relaxed)) {
        // Mostly outside a touch, so that the revoker seldom waits for a requester that the scheduler has put aside.
        pause(2000);
        const MemoryKey rkey{key.load(std::memory_order_relaxed)};
        const TouchRecords::Guard guard(requesters[i]->adapter().touch_records(), i, {target, view.entry_index(rkey)},
                                        view.revokes_by_membarrier());
        RegionFields region;
        if (!view.read(rkey, region)) continue;
        for (uint64_t& word : memory[i]) ++word;
        touches.fetch_add(1, std::memory_order_relaxed);
      }
    });
  const FakeClock clock;
  RandomPause pause(99);
  uint64_t landed = 0;
  for (int round = 1; round <= kRounds; ++round) {
    const uint64_t before = touches.load(std::memory_order_relaxed);
    const MemoryKey mine = owner.adapter().publish_region({.length = 8}).take();
    key.store(mine.value, std::memory_order_relaxed);
    while (touches.load(std::memory_order_relaxed) == before) std::this_thread::yield();
    pause(1000);
    owner.adapter().withdraw_region(mine);
    settle_region(owner.adapter(), owner.peers(), clock, mine);
    const uint64_t sign = uint64_t{1} << 63 | static_cast<uint64_t>(round);
    for (auto& area : memory)
      for (uint64_t& word : area) word = sign;
    for (int look = 0; look < 20; ++look)
      for (auto& area : memory)
        for (volatile uint64_t& word : area) landed += word != sign;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(landed, 0u);
}

}  // namespace
}  // namespace verbatim::local
