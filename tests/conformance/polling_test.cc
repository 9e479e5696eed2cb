// Polling in vain: whoever may have to run first gets the processor.
#include <sched.h>

#include <atomic>
#include <thread>

#include "conformance/support/side.h"
#include "support/on_processor.h"

namespace verbatim::conformance {
namespace {

using testing_support::OnProcessor;

// How often another thread of the same processor gets its turn while this one polls in vain, for milliseconds only: a
// time slice of its own would be longer.
template <class Poll>
int turns_of_another(Poll&& poll) {
  const OnProcessor here(0);
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  std::thread other([&] {
    const OnProcessor same(0);
    while (!stop.load()) {
      turns.fetch_add(1);
      sched_yield();
    }
  });
  while (turns.load() == 0) sched_yield();
  const int before = turns.load();
  for (int i = 0; i < 100'000; ++i) poll();
  const int during = turns.load() - before;
  stop.store(true);
  other.join();
  return during;
}

constexpr int kManyTurns = 10;

TEST(PollingInVain, GivesTheProcessorAway) {
  const Side side;
  ibv_wc completion;
  EXPECT_GE(turns_of_another([&] { EXPECT_EQ(ibv_poll_cq(side.cq(), 1, &completion), 0); }), kManyTurns);
}

TEST(PollingInVain, GivesTheProcessorAwayByTheExtendedCallsToo) {
  const Side side;
  for (const uint32_t flags : {0u, uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
    ibv_cq_init_attr_ex attributes{.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags};
    ibv_cq_ex* const cq = ibv_create_cq_ex(side.context(), &attributes);
    ASSERT_TRUE(cq);
    ibv_poll_cq_attr batch{};
    EXPECT_GE(turns_of_another([&] { EXPECT_EQ(ibv_start_poll(cq, &batch), ENOENT); }), kManyTurns) << flags;
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  }
}

}  // namespace
}  // namespace verbatim::conformance
