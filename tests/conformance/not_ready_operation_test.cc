// As not_ready_test.cc, for the other operations: messages, WRITEs with immediate data, atomics, and all of it over
// XRC.
#include <chrono>

#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// 33.6 ms, twice.
constexpr Wiring kImpatient{.access = kAccess, .timeout = 13, .retry_cnt = 1};

constexpr Operation kOperations[] = {
    {IBV_QPT_RC, IBV_WR_SEND},
    {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QPT_XRC_SEND, IBV_WR_SEND},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ},
    {IBV_QPT_XRC_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD},
};

class NotReadyForOperation : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Operation>> {
 protected:
  NotReadyForOperation() {
    set_up(std::get<0>(GetParam()), operation().opcode, kLength, operation().type, operation().extended());
    remote_ = far_->register_memory(kLength, kAccess);
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    // From then on its process can be known, which is not what is waited for here.
    connect_far();
    EXPECT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  }
  const Operation& operation() const { return std::get<1>(GetParam()); }

  void connect_near(const Wiring& wiring) { ASSERT_EQ(conformance::connect(qp_.get(), far_address_, wiring), 0); }
  void connect_far() {
    const Address near = near_->address_of(qp_.get());
    ASSERT_EQ(far_->connect(0, near, {.access = kAccess}, operation().peer_type()), 0);
  }
  void post_receives(uint64_t count) {
    if (!operation().takes_receive()) return;
    for (uint64_t id = 1; id <= count; ++id) ASSERT_EQ(far_->post_receive(0, id, {{0, 64}}), 0);
  }
  void expect_patience_exhausted() {
    const auto start = Clock::now();
    EXPECT_EQ(post({request(1, 0, 8), request(2, 0, 8)}), kAllPosted);
    EXPECT_EQ(next(), failed(1, IBV_WC_RETRY_EXC_ERR));
    EXPECT_GE(Clock::now() - start, kImpatient.patience());
    EXPECT_EQ(next(), flushed(2));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
    EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NotReadyForOperation, testing::Combine(every_setting(), testing::ValuesIn(kOperations)),
                         operation_name);

TEST_P(NotReadyForOperation, APeerInResetExhaustsTheRetries) {
  connect_near(kImpatient);
  expect_patience_exhausted();
}

TEST_P(NotReadyForOperation, APeerInInitExhaustsTheRetries) {
  ASSERT_EQ(far_->modify(0, init_attributes({.access = kAccess}), kInitMask), 0);
  post_receives(2);
  connect_near(kImpatient);
  expect_patience_exhausted();
}

TEST_P(NotReadyForOperation, APeerInErrorExhaustsTheRetries) {
  connect(kImpatient);
  ASSERT_EQ(far_->to_state(0, IBV_QPS_ERR), 0);
  expect_patience_exhausted();
}

TEST_P(NotReadyForOperation, ADestroyedPeerExhaustsTheRetries) {
  connect(kImpatient);
  ASSERT_EQ(far_->destroy_queue_pair(), 0);
  expect_patience_exhausted();
}

TEST_P(NotReadyForOperation, APeerThatBecomesReadyInTimeIsServedInOrder) {
  connect_near({.access = kAccess});
  EXPECT_EQ(post({request(1, 0, 8), request(2, 64, 8)}), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(10)));
  connect_far();
  post_receives(2);
  for (uint64_t id = 1; id <= 2; ++id) EXPECT_EQ(next(), succeeded(id));
}

}  // namespace
}  // namespace verbatim::conformance
