#include "model/send_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace verbatim::model {
namespace {

SendWork numbered(uint64_t id, std::span<const Sge> sges = {}) {
  uint64_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  return {.work_id = id, .sges = sges, .length = length};
}

TEST(SendQueue, GivesRequestsOutInTheOrderOfPosting) {
  SendQueue queue(4, 1, 0);
  EXPECT_TRUE(queue.idle());
  for (uint64_t id = 1; id <= 3; ++id) queue.push(numbered(id));
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_FALSE(queue.idle());
    EXPECT_EQ(queue.head().work_id, id);
    queue.pop();
    EXPECT_EQ(queue.executed(), id);
  }
  EXPECT_TRUE(queue.idle());
}

TEST(SendQueue, RoomIsFreeOnlyWhenRequestsAreRetired) {
  SendQueue queue(2, 1, 0);
  EXPECT_FALSE(queue.full());
  queue.push(numbered(1));
  EXPECT_FALSE(queue.full());
  queue.push(numbered(2));
  EXPECT_TRUE(queue.full());
  queue.pop();
  queue.pop();
  EXPECT_TRUE(queue.full()) << "executed, but nobody took the completion";
  queue.retire(1);
  EXPECT_FALSE(queue.full());
  queue.push(numbered(3));
  EXPECT_TRUE(queue.full());
  queue.retire(3);
  EXPECT_FALSE(queue.full());
}

TEST(SendQueue, WhatIsTakenBackLeavesItsRoomAndNoTrace) {
  SendQueue queue(2, 1, 0);
  queue.push(numbered(1));
  const uint64_t before = queue.posted();
  queue.push(numbered(2));
  queue.take_back(before);
  EXPECT_FALSE(queue.full());
  queue.push(numbered(3));
  queue.pop();
  EXPECT_EQ(queue.head().work_id, 3u);
}

TEST(SendQueue, OneRetirementFreesTheUnsignaledRequestsBeforeItToo) {
  SendQueue queue(8, 1, 0);
  for (uint64_t id = 1; id <= 8; ++id) queue.push(numbered(id)), queue.pop();
  EXPECT_TRUE(queue.full());
  queue.retire(8);
  for (uint64_t id = 9; id <= 16; ++id) {
    ASSERT_FALSE(queue.full());
    queue.push(numbered(id));
  }
  EXPECT_TRUE(queue.full());
}

TEST(SendQueue, RequestsKeepTheirOwnSgesThroughManyTurnsOfTheRing) {
  constexpr uint32_t kRequests = 3, kSges = 4;
  SendQueue queue(kRequests, kSges, 0);
  uint64_t posted = 0;
  for (uint64_t taken = 0; taken < 100; ++taken) {
    while (!queue.full()) {
      std::vector<Sge> sges;
      for (uint64_t i = 0; i < posted % (kSges + 1); ++i) sges.push_back({posted * 10 + i, 1, {}});
      queue.push(numbered(posted, sges));
      ++posted;
    }
    const SendWork& head = queue.head();
    ASSERT_EQ(head.work_id, taken);
    ASSERT_EQ(head.sges.size(), taken % (kSges + 1));
    for (uint64_t i = 0; i < head.sges.size(); ++i) ASSERT_EQ(head.sges[i].address, taken * 10 + i);
    queue.pop();
    queue.retire(queue.executed());
  }
}

TEST(SendQueue, InlineDataIsTakenAtPostingAndJoined) {
  SendQueue queue(2, 3, 16);
  std::array<char, 4> first{'a', 'b', 'c', 'd'};
  std::array<char, 2> second{'e', 'f'};
  const Sge sges[] = {{reinterpret_cast<uint64_t>(first.data()), 4, {}},
                      {0, 0, {}},
                      {reinterpret_cast<uint64_t>(second.data()), 2, {}}};
  SendWork work = numbered(1, sges);
  work.inline_data = true;
  queue.push(work);
  first.fill('x');
  second.fill('y');
  ASSERT_EQ(queue.head().sges.size(), 1u);
  EXPECT_EQ(queue.head().sges[0].length, 6u);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(queue.head().sges[0].address), 6), "abcdef");
}

TEST(SendQueue, EachRequestHasInlineRoomOfItsOwn) {
  SendQueue queue(2, 1, 8);
  for (uint64_t value : {0x1111u, 0x2222u}) {
    const Sge sge{reinterpret_cast<uint64_t>(&value), 8, {}};
    SendWork work = numbered(value, {&sge, 1});
    work.inline_data = true;
    queue.push(work);
  }
  for (uint64_t value : {0x1111u, 0x2222u}) {
    EXPECT_EQ(*reinterpret_cast<const uint64_t*>(queue.head().sges[0].address), value);
    queue.pop();
  }
}

TEST(SendQueue, InlineDataWithoutBytesHasNoSge) {
  SendQueue queue(1, 0, 8);
  SendWork work = numbered(1);
  work.inline_data = true;
  queue.push(work);
  EXPECT_TRUE(queue.head().sges.empty());
}

TEST(SendQueue, AQueueOfNoRequestsIsAlwaysFull) {
  const SendQueue queue(0, 0, 0);
  EXPECT_TRUE(queue.full());
  EXPECT_TRUE(queue.idle());
}

TEST(SendQueue, ClearedItIsAsNew) {
  SendQueue queue(2, 1, 0);
  for (uint64_t id = 1; id <= 2; ++id) queue.push(numbered(id));
  queue.pop();
  queue.retire(1);
  queue.clear();
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(queue.executed(), 0u);
  queue.push(numbered(7));
  EXPECT_FALSE(queue.full());
  EXPECT_EQ(queue.head().work_id, 7u);
}

TEST(SendQueue, AnotherThreadMayRetire) {
  constexpr uint64_t kRequests = 20'000;
  SendQueue queue(4, 1, 0);
  std::atomic<uint64_t> executed{0};
  std::thread taker([&] {
    for (uint64_t done = 0; done < kRequests;) {
      done = executed.load(std::memory_order_acquire);
      queue.retire(done);
      std::this_thread::yield();
    }
  });
  for (uint64_t id = 1; id <= kRequests; ++id) {
    while (queue.full()) std::this_thread::yield();
    queue.push(numbered(id));
    ASSERT_EQ(queue.head().work_id, id);
    queue.pop();
    executed.store(queue.executed(), std::memory_order_release);
  }
  taker.join();
}

}  // namespace
}  // namespace verbatim::model
