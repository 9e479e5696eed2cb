// Many threads at once: on queue pairs of their own that share a CQ, and on one queue pair.
#include <atomic>
#include <random>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kThreads = 4;
constexpr uint32_t kEach = 3000;
constexpr uint32_t kArea = 4096;

class Threads : public PairTest, public testing::WithParamInterface<std::tuple<Setting, ibv_wr_opcode>> {
 protected:
  Threads() { set_up(std::get<0>(GetParam()), std::get<1>(GetParam()), kThreads * kArea); }

  // Posts until there is room, as a program does.
  static void post_patiently(ibv_qp* qp, const Request& request) {
    Posted posted;
    do posted = conformance::post(qp, {request});
    while (posted.error == ENOMEM && (std::this_thread::yield(), true));
    EXPECT_EQ(posted, kAllPosted);
  }

  // Takes completions until there were `total`, in several threads at once; calls see(completion).
  template <class See>
  std::vector<std::thread> start_pollers(uint32_t total, See see) {
    std::vector<std::thread> pollers;
    for (int i = 0; i < 2; ++i)
      pollers.emplace_back([this, total, see] {
        const auto deadline = std::chrono::steady_clock::now() + 2 * kSoon;
        while (seen_ < total && std::chrono::steady_clock::now() < deadline) {
          ibv_wc completions[8];
          const int count = ibv_poll_cq(near_->cq(), 8, completions);
          ASSERT_GE(count, 0);
          for (int k = 0; k < count; ++k) see(completions[k]);
          seen_ += static_cast<uint32_t>(count);
          if (count == 0) std::this_thread::yield();
        }
      });
    return pollers;
  }

  std::atomic<uint32_t> seen_{0};
};
INSTANTIATE_TEST_SUITE_P(Each, Threads, every_way(), way_name);

TEST_P(Threads, OnTheirOwnQueuePairsWithOneCompletionQueue) {
  std::vector<QpHandle> queue_pairs;
  for (uint32_t i = 0; i < kThreads; ++i) {
    queue_pairs.push_back(near_->create_queue_pair());
    const Address far = far_->create_queue_pair();
    ASSERT_EQ(far_->connect(i + 1, near_->address_of(queue_pairs[i].get())), 0);
    ASSERT_EQ(conformance::connect(queue_pairs[i].get(), far), 0);
  }
  far_->fill(0, kThreads * kArea, 1);
  fill(memory_->bytes(), 2);
  // Once for each request, and of the right queue pair.
  std::vector<std::atomic<uint32_t>> completed(kThreads * kEach);
  std::vector<std::thread> threads = start_pollers(kThreads * kEach, [&](const ibv_wc& completion) {
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_LT(completion.wr_id, completed.size());
    EXPECT_EQ(completion.qp_num, queue_pairs[completion.wr_id / kEach]->qp_num);
    ++completed[completion.wr_id];
  });
  for (uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (uint32_t k = 0; k < kEach; ++k)
        post_patiently(queue_pairs[i].get(), request(i * kEach + k, i * kArea, kArea));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen_, kThreads * kEach);
  for (const std::atomic<uint32_t>& count : completed) EXPECT_EQ(count, 1u);
  if (opcode_ == IBV_WR_RDMA_READ)
    EXPECT_EQ(first_difference(memory_->bytes(), 1), std::nullopt);
  else
    EXPECT_EQ(far_->first_difference(0, kThreads * kArea, 2, 0), std::nullopt);
}

TEST_P(Threads, OnOneQueuePairKeepTheirOwnOrder) {
  connect();
  far_->fill(0, kThreads * kArea, 1);
  fill(memory_->bytes(), 2);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (uint32_t k = 0; k < kEach; ++k) post_patiently(qp_.get(), request(i * kEach + k, i * kArea, 64));
    });
  // One poller: completions of a queue pair come in the order in which they were posted.
  uint32_t next_of[kThreads] = {};
  const auto deadline = std::chrono::steady_clock::now() + 2 * kSoon;
  for (uint32_t taken = 0; taken < kThreads * kEach && std::chrono::steady_clock::now() < deadline;) {
    ibv_wc completion{};
    if (ibv_poll_cq(near_->cq(), 1, &completion) != 1) continue;
    ++taken;
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.wr_id % kEach, next_of[completion.wr_id / kEach]++);
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint32_t count : next_of) EXPECT_EQ(count, kEach);
  EXPECT_TRUE(no_completion());
}

TEST_P(Threads, PostWhileAnotherBreaksTheQueuePair) {
  for (int round = 0; round < 20; ++round) {
    connect();
    std::atomic<uint32_t> posted{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        for (uint32_t k = 0; k < kOrdinaryCapabilities.max_send_wr / kThreads; ++k) {
          EXPECT_EQ(post(request(i, i * kArea, kArea)), kAllPosted);
          ++posted;
        }
      });
    threads.emplace_back([&] {
      while (posted < 8) std::this_thread::yield();
      EXPECT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
    });
    for (std::thread& thread : threads) thread.join();
    // Every request completes; successes first, then flushes only.
    bool broken = false;
    for (uint32_t i = 0; i < posted; ++i) {
      const Outcome outcome = next();
      broken = broken || outcome.status != IBV_WC_SUCCESS;
      EXPECT_EQ(outcome.status, broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    }
    EXPECT_TRUE(no_completion());
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  }
}

TEST_P(Threads, CreateConnectUseAndDestroyTheirOwn) {
  connect();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      const Side side;
      const Memory memory(MemoryKind::anonymous, 2 * kArea);
      for (int round = 0; round < 50; ++round) {
        const MrHandle region = side.register_memory(memory);
        const QpHandle qp = side.create_queue_pair();
        ASSERT_EQ(conformance::connect(qp.get(), side.address_of(qp.get())), 0);
        fill(memory.bytes(0, kArea), static_cast<uint64_t>(round));
        const ibv_sge source{memory.address(), kArea, region->lkey};
        EXPECT_EQ(conformance::post(qp.get(), {{1, IBV_WR_RDMA_WRITE, {source}, memory.address(kArea), region->rkey}}),
                  kAllPosted);
        const std::optional<ibv_wc> completion = side.poll();
        ASSERT_TRUE(completion);
        EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
        EXPECT_EQ(first_difference(memory.bytes(kArea, kArea), static_cast<uint64_t>(round)), std::nullopt);
      }
    });
  for (uint64_t id = 0; id < 2000; ++id) {
    EXPECT_EQ(post(request(id, 0, kArea)), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace verbatim::conformance
