#include "local/adapter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "local/test_child.h"
#include "support/local_process.h"

namespace verbatim::local {
namespace {

using testing_support::LocalProcess;

constexpr uint16_t kSlot = 0x123;

struct AdapterTest : testing::Test {
  LocalProcess process{kSlot};
  Adapter& adapter = process.adapter();

  MemoryKey publish_region(uint64_t address = 0x1000) {
    Result<MemoryKey> key = adapter.publish_region({.pd = {1}, .access = 7, .iova = address, .length = 16});
    EXPECT_TRUE(key.ok());
    return key.ok() ? key.value() : MemoryKey{};
  }
};

TEST_F(AdapterTest, ClaimsNoSlotBeforeTheFirstQueuePair) {
  EXPECT_EQ(process.claims(), 0);
  EXPECT_TRUE(adapter.slots().empty());
  EXPECT_FALSE(adapter.owns(Slot{kSlot}));
  EXPECT_EQ(adapter.allocate_qpn().value().slot(), Slot{kSlot});
  EXPECT_EQ(process.claims(), 1);
  EXPECT_EQ(adapter.slots(), std::vector{Slot{kSlot}});
  EXPECT_TRUE(adapter.owns(Slot{kSlot}));
}

TEST_F(AdapterTest, GivesOutEachNumberOfASlotOnceThenClaimsTheNext) {
  std::set<Qpn> seen;
  for (uint32_t i = 0; i < Qpn::kPerSlot; ++i) {
    const Qpn qpn = process.allocate_qpn();
    EXPECT_EQ(qpn.slot(), Slot{kSlot});
    EXPECT_TRUE(seen.insert(qpn).second) << qpn.value;
  }
  EXPECT_EQ(process.claims(), 1);
  EXPECT_EQ(process.allocate_qpn().slot(), Slot{kSlot + 1});
  EXPECT_EQ(process.claims(), 2);
  EXPECT_EQ(adapter.slots(), (std::vector{Slot{kSlot}, Slot{kSlot + 1}}));
}

TEST_F(AdapterTest, ClaimsSixteenSlotsAndNoMore) {
  std::set<Qpn> seen;
  for (uint32_t i = 0; i < kQueuePairEntries; ++i) seen.insert(process.allocate_qpn());
  EXPECT_EQ(seen.size(), kQueuePairEntries);
  EXPECT_EQ(adapter.allocate_qpn().error(), ENOSPC);
  EXPECT_EQ(process.claims(), static_cast<int>(kMaxSlots));
  adapter.release_qpn(*seen.begin());
  EXPECT_EQ(adapter.allocate_qpn().value(), *seen.begin());
}

TEST_F(AdapterTest, PassesOnWhyASlotCouldNotBeClaimed) {
  process.answer_claims({EUSERS});
  EXPECT_EQ(adapter.allocate_qpn().error(), EUSERS);
  process.answer_claims(Status::success());
  EXPECT_TRUE(adapter.allocate_qpn().ok());
}

TEST_F(AdapterTest, UsesAReleasedNumberAgainAsLateAsPossible) {
  const Qpn first = process.allocate_qpn();
  const Qpn second = process.allocate_qpn();
  adapter.release_qpn(first);
  adapter.release_qpn(second);
  for (uint32_t i = 0; i < Qpn::kPerSlot - 2; ++i) {
    const Qpn qpn = process.allocate_qpn();
    ASSERT_NE(qpn, first);
    ASSERT_NE(qpn, second);
  }
  EXPECT_EQ(process.allocate_qpn(), first);
  EXPECT_EQ(process.allocate_qpn(), second);
}

TEST(Adapter, ALimitOfFileSizesIsAnError) {
  TestChild child([](TestChild::Talk& talk) {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    talk.say(static_cast<uint64_t>(Adapter::create([] { return Slot{kSlot}; }).error()));
    return 0;
  });
  EXPECT_EQ(child.hear(), uint64_t{EFBIG});
  EXPECT_EQ(child.join(), 0);
}

TEST(Adapter, ThreadsThatAllocateAtOnceGetDifferentNumbersOfOneSlot) {
  constexpr int kThreads = 4, kEach = 100;
  std::atomic<int> claims{0};
  const auto adapter = Adapter::create([&]() -> Result<Slot> {
                         claims.fetch_add(1);
                         // Time enough for the others to find that there is no number for them.
                         for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
                         return Slot{kSlot};
                       }).take();
  std::latch start(kThreads);
  std::vector<std::vector<Qpn>> got(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (int j = 0; j < kEach; ++j) got[i].push_back(adapter->allocate_qpn().take());
    });
  for (std::thread& thread : threads) thread.join();
  std::set<Qpn> seen;
  for (const auto& numbers : got) seen.insert(numbers.begin(), numbers.end());
  EXPECT_EQ(seen.size(), size_t{kThreads * kEach});
  EXPECT_EQ(claims.load(), 1);
}

TEST_F(AdapterTest, ShowsAQueuePairUntilItsNumberIsReleased) {
  const Qpn qpn = process.allocate_qpn();
  QueuePairFields seen;
  EXPECT_FALSE(adapter.view().read(qpn, seen)) << "never published";
  adapter.publish({.qpn = qpn, .state = 3, .access = 6, .pd = {9}, .peer = {0x777}, .responder_depth = 4});
  ASSERT_TRUE(adapter.view().read(qpn, seen));
  EXPECT_EQ(seen.qpn, qpn);
  EXPECT_EQ(seen.state, 3u);
  EXPECT_EQ(seen.access, 6u);
  EXPECT_EQ(seen.pd, PdId{9});
  EXPECT_EQ(seen.peer, Qpn{0x777});
  EXPECT_EQ(seen.responder_depth, 4u);
  adapter.release_qpn(qpn);
  EXPECT_FALSE(adapter.view().read(qpn, seen));
}

TEST_F(AdapterTest, QueuePairsOfSeveralSlotsDoNotCollide) {
  std::vector<Qpn> all;
  for (uint32_t i = 0; i < Qpn::kPerSlot + 50; ++i) {
    all.push_back(process.allocate_qpn());
    adapter.publish({.qpn = all.back(), .access = i});
  }
  for (uint32_t i = 0; i < all.size(); ++i) {
    QueuePairFields seen;
    ASSERT_TRUE(adapter.view().read(all[i], seen));
    ASSERT_EQ(seen.access, i);
  }
}

TEST_F(AdapterTest, ARegionIsFoundUnderItsKeyUntilItIsWithdrawn) {
  const MemoryKey key = publish_region(0x4000);
  RegionFields seen;
  ASSERT_TRUE(adapter.view().read(key, seen));
  EXPECT_EQ(seen.key, key);
  EXPECT_EQ(seen.iova, 0x4000u);
  EXPECT_EQ(seen.length, 16u);
  adapter.withdraw_region(key);
  EXPECT_FALSE(adapter.view().read(key, seen));
}

TEST_F(AdapterTest, KeysAndEntriesOfLiveRegionsDiffer) {
  std::set<MemoryKey> keys;
  std::set<uint32_t> entries;
  for (int i = 0; i < 5000; ++i) {
    const MemoryKey key = publish_region();
    EXPECT_NE(key.value, 0u);
    EXPECT_TRUE(keys.insert(key).second);
    EXPECT_TRUE(entries.insert(adapter.view().entry_index(key)).second);
  }
}

TEST_F(AdapterTest, FewRegionsUseFewPagesOfTheTable) {
  for (uint32_t i = 0; i < 1500; ++i) {
    const uint32_t window = i < 256 ? 1024 : i < 512 ? 2048 : i < 1024 ? 4096 : 8192;
    ASSERT_LT(adapter.view().entry_index(publish_region()), window) << "region " << i;
  }
}

TEST_F(AdapterTest, TheWindowGrowsWithTheRegionsSoThatThreeOfFourEntriesStayFree) {
  uint32_t highest = 0;
  for (uint32_t i = 0; i < 1024; ++i) highest = std::max(highest, adapter.view().entry_index(publish_region()));
  // 512 draws from 4096 entries: none above 2048 has a chance of 2^-512.
  EXPECT_GE(highest, 2048u);
}

TEST_F(AdapterTest, ANeighbouringKeyOfTheSameEntryIsRefused) {
  const MemoryKey key = publish_region();
  RegionFields seen;
  for (int bit = 0; bit < 32; ++bit)
    EXPECT_FALSE(adapter.view().read(MemoryKey{key.value ^ 1u << bit}, seen)) << "bit " << bit;
  EXPECT_FALSE(adapter.view().read(MemoryKey{0}, seen));
}

TEST_F(AdapterTest, KeysAreNotGuessedFromOneAnother) {
  // Few regions are drawn from 1024 entries, whose numbers begin at bit 8; what else a key has is drawn anew each time.
  const uint32_t first = publish_region().value;
  uint32_t varying = 0;
  std::set<uint32_t> differences;
  for (int i = 0; i < 200; ++i) {
    const uint32_t key = publish_region().value;
    varying |= key ^ first;
    differences.insert(key - first);
  }
  EXPECT_EQ(varying & 0xf003ffff, 0xf003ffff);
  EXPECT_EQ(differences.size(), 200u);
}

TEST_F(AdapterTest, APartOfTheEntriesStaysEmpty) {
  MemoryKey last;
  for (uint32_t i = 0; i < kMaxRegions; ++i) last = publish_region();
  EXPECT_EQ(adapter.publish_region({.length = 16}).error(), ENOMEM);
  adapter.withdraw_region(last);
  EXPECT_TRUE(adapter.publish_region({.length = 16}).ok());
}

TEST_F(AdapterTest, NoticesAreCountedAndReadInOrder) {
  EXPECT_EQ(adapter.view().notice_count(), 0u);
  for (uint32_t i = 0; i < 3; ++i) adapter.leave_notice({.target = {i}, .source = {100 + i}, .kind = 1});
  EXPECT_EQ(adapter.view().notice_count(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    NoticeFields seen;
    ASSERT_TRUE(adapter.view().read_notice(i, seen));
    EXPECT_EQ(seen.target, Qpn{i});
    EXPECT_EQ(seen.source, Qpn{100 + i});
  }
}

TEST_F(AdapterTest, NobodyElseCanWriteOrResizeTheSegment) {
  const int fd = adapter.segment_fd();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(write(fd, "x", 1), -1);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, 2 * sizeof(Segment)), 0);
  // A read-only mapping cannot be made writable later.
  void* memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_NE(mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
  munmap(memory, 4096);
}

TEST_F(AdapterTest, DescriptorsAreClosedOnExec) {
  EXPECT_TRUE(fcntl(adapter.segment_fd(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(adapter.doorbell_fd(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(adapter.doorbell_fd(), F_GETFL) & O_NONBLOCK);
}

TEST_F(AdapterTest, WhatAForkedChildDoesWithAnAbandonedAdapterReachesNobody) {
  const Qpn qpn = process.allocate_qpn();
  adapter.publish({.qpn = qpn, .state = 3});
  const MemoryKey key = publish_region();
  const pid_t child = fork();
  if (child == 0) {
    const int segment = adapter.segment_fd();
    adapter.abandon();
    const bool closed = fcntl(segment, F_GETFD) == -1;
    adapter.publish({.qpn = qpn, .state = 6});
    adapter.withdraw_region(key);
    _exit(closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  QueuePairFields queue_pair;
  RegionFields region;
  ASSERT_TRUE(adapter.view().read(qpn, queue_pair));
  EXPECT_EQ(queue_pair.state, 3u);
  EXPECT_TRUE(adapter.view().read(key, region));
}

TEST(Adapter, IncarnationsDifferAndAreNeverZero) {
  std::set<Incarnation> seen;
  for (int i = 0; i < 20; ++i) {
    LocalProcess process(kSlot);
    EXPECT_NE(process.adapter().incarnation().value, 0u);
    EXPECT_TRUE(seen.insert(process.adapter().incarnation()).second);
  }
}

// An owner publishes and withdraws while others look: what they see under a key is always that key's region.
TEST_F(AdapterTest, ReadersNeverSeeARegionUnderAnotherKey) {
  std::atomic<uint32_t> current{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> found{0}, wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      const SegmentView view(testing_support::segment_of(adapter.view()));
      while (!stop.load(std::memory_order_relaxed)) {
        const MemoryKey key{current.load(std::memory_order_relaxed)};
        RegionFields seen;
        if (!view.read(key, seen)) continue;
        found.fetch_add(1, std::memory_order_relaxed);
        if (seen.key != key || seen.iova != seen.length || seen.iova != seen.address) wrong.fetch_add(1);
      }
    });
  for (uint64_t i = 1; i < 30'000 || found.load() < 100; ++i) {
    const MemoryKey key = adapter.publish_region({.iova = i, .length = i, .address = i}).take();
    current.store(key.value, std::memory_order_relaxed);
    if (i % 64 == 0) std::this_thread::yield();
    adapter.withdraw_region(key);
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace verbatim::local
