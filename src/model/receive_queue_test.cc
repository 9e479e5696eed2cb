#include "model/receive_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbatim::model {
namespace {

TEST(ReceiveQueue, GivesReceivesOutInTheOrderOfPosting) {
  ReceiveQueue queue(3, 1);
  EXPECT_TRUE(queue.empty());
  for (uint64_t id = 1; id <= 3; ++id) queue.push({id, {}});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_FALSE(queue.empty());
    EXPECT_EQ(queue.head().work_id, id);
    queue.pop();
    EXPECT_EQ(queue.consumed(), id);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(ReceiveQueue, RoomIsFreeOnlyWhenReceivesAreRetired) {
  ReceiveQueue queue(2, 1);
  queue.push({1, {}});
  EXPECT_FALSE(queue.full());
  queue.push({2, {}});
  EXPECT_TRUE(queue.full());
  queue.pop();
  queue.pop();
  EXPECT_TRUE(queue.full());
  queue.retire(1);
  EXPECT_FALSE(queue.full());
  queue.push({3, {}});
  EXPECT_TRUE(queue.full());
}

TEST(ReceiveQueue, ReceivesKeepTheirOwnSgesThroughManyTurnsOfTheRing) {
  constexpr uint32_t kSges = 3;
  ReceiveQueue queue(5, kSges);
  uint64_t posted = 0;
  for (uint64_t taken = 0; taken < 100; ++taken) {
    while (!queue.full()) {
      std::vector<Sge> sges;
      for (uint64_t i = 0; i < posted % (kSges + 1); ++i) sges.push_back({posted * 10 + i, 1, {}});
      queue.push({posted++, sges});
    }
    ASSERT_EQ(queue.head().work_id, taken);
    ASSERT_EQ(queue.head().sges.size(), taken % (kSges + 1));
    for (uint64_t i = 0; i < queue.head().sges.size(); ++i) ASSERT_EQ(queue.head().sges[i].address, taken * 10 + i);
    queue.pop();
    queue.retire(queue.consumed());
  }
}

TEST(ReceiveQueue, AQueueOfNoReceivesIsAlwaysFull) {
  const ReceiveQueue queue(0, 0);
  EXPECT_TRUE(queue.full());
  EXPECT_TRUE(queue.empty());
}

TEST(ReceiveQueue, ClearedItIsAsNew) {
  ReceiveQueue queue(2, 1);
  queue.push({1, {}});
  queue.push({2, {}});
  queue.pop();
  queue.retire(1);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.consumed(), 0u);
  queue.push({7, {}});
  EXPECT_FALSE(queue.full());
  EXPECT_EQ(queue.head().work_id, 7u);
}

}  // namespace
}  // namespace verbatim::model
