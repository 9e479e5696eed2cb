// All names that processes of this user can claim are taken: no queue pair can be made, and nothing else is lost.
#include <sys/resource.h>

#include <vector>

#include "agent/slot_claim.h"
#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

class OutOfNames : public testing::Test {
 protected:
  void SetUp() override {
    constexpr rlim_t kEnough = 4500;
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < kEnough)
      GTEST_SKIP() << "needs " << kEnough << " descriptors, the hard limit is " << limit.rlim_max;
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  void take_all() {
    const Result<AgentIdentity> identity = AgentIdentity::of_this_process();
    ASSERT_TRUE(identity.ok());
    for (uint16_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
      Result<SlotClaim> claim = SlotClaim::claim(identity.value(), {slot});
      // The device may have one.
      if (claim.ok()) taken_.push_back(claim.take());
    }
    ASSERT_GE(taken_.size(), size_t{kLastSlot - kFirstSlot});
  }

  ibv_qp* try_to_create_queue_pair() {
    ibv_qp_init_attr init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    errno = 0;
    return ibv_create_qp(side_.pd(), &init);
  }

  const Side side_;
  std::vector<SlotClaim> taken_;
};

TEST_F(OutOfNames, AQueuePairCannotBeMadeUntilThereIsOne) {
  ASSERT_NO_FATAL_FAILURE(take_all());
  constexpr int kAttempts = 5;
  for (int i = 0; i < kAttempts; ++i) {
    const QpHandle qp(try_to_create_queue_pair());
    ASSERT_FALSE(qp);
    ASSERT_EQ(errno, ENOSPC) << strerror(errno);
  }
  taken_.pop_back();
  const QpHandle qp(try_to_create_queue_pair());
  ASSERT_TRUE(qp) << strerror(errno);
  const Memory memory(MemoryKind::anonymous, 8192);
  const MrHandle region = side_.register_memory(memory);
  EXPECT_TRUE(region);
  EXPECT_EQ(connect(qp.get(), side_.address_of(qp.get())), 0);
}

TEST_F(OutOfNames, WhoHasOneMakesMoreQueuePairs) {
  const QpHandle first(try_to_create_queue_pair());
  ASSERT_TRUE(first);
  ASSERT_NO_FATAL_FAILURE(take_all());
  const QpHandle second(try_to_create_queue_pair());
  EXPECT_TRUE(second) << strerror(errno);
}

}  // namespace
}  // namespace verbatim::conformance
