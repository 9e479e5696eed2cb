// As remote_error_test.cc, for the rest of what names the target's memory: atomics, WRITEs with immediate data, and all
// of it over XRC.
#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

constexpr Operation kOperations[] = {
    {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},      {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},     {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ},          {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QPT_XRC_SEND, IBV_WR_ATOMIC_CMP_AND_SWP}, {IBV_QPT_XRC_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD}};

class OperationError : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Operation>> {
 protected:
  static constexpr uint32_t kReceives = 3;

  OperationError() {
    set_up(std::get<0>(GetParam()), operation().opcode, kLength, operation().type, operation().extended());
    remote_ = far_->register_memory(kLength, kAccess);
  }
  const Operation& operation() const { return std::get<1>(GetParam()); }

  Request request(uint64_t id, uint64_t offset = 0) const {
    Request request = PairTest::request(id, offset, 8);
    request.compare_add = 1;
    return request;
  }
  void connect(const Wiring& far = {.access = kAccess}) { PairTest::connect({.access = kAccess}, far); }
  void post_receives() {
    for (uint64_t id = 0; id < kReceives; ++id) EXPECT_EQ(far_->post_receive(0, id, {}), 0);
  }
  // Those of an XRC receiver stay in the shared queue.
  uint32_t flushed_receives() const { return operation().extended() ? 0 : kReceives; }

  void expect_refused(Request bad, ibv_wc_status status, ibv_event_type event,
                      const Wiring& far = {.access = kAccess}) {
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    connect(far);
    post_receives();
    bad.id = 7;
    Request quiet = request(8);
    quiet.flags = 0;
    EXPECT_EQ(post({bad, quiet, request(9)}), kAllPosted);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(next(), flushed(9));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0))) << "the requester's error is a completion, no event";
    expect_responder_broken(event, flushed_receives());
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
  }
  void expect_access_error(const Request& bad) { expect_refused(bad, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR); }
  void expect_invalid(const Request& bad, const Wiring& far = {.access = kAccess}) {
    expect_refused(bad, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, far);
  }
  void expect_done(const Request& good) {
    EXPECT_EQ(post(good), kAllPosted);
    EXPECT_EQ(next(), succeeded(good.id));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, OperationError, testing::Combine(every_setting(), testing::ValuesIn(kOperations)),
                         operation_name);

TEST_P(OperationError, UnknownRkey) {
  Request bad = request(0);
  bad.rkey ^= 0x5a5a00;
  expect_access_error(bad);
}

TEST_P(OperationError, KeyPartOfTheRkeyIsWrong) {
  Request bad = request(0);
  bad.rkey ^= 1;
  expect_access_error(bad);
}

TEST_P(OperationError, JustBeforeTheRegion) {
  Request bad = request(0);
  bad.remote_address -= 8;
  expect_access_error(bad);
}

TEST_P(OperationError, JustBehindTheRegion) {
  Request bad = request(0);
  bad.remote_address += kLength;
  expect_access_error(bad);
}

TEST_P(OperationError, InTheLastBytesOfTheAddressSpace) {
  Request bad = request(0);
  bad.remote_address = ~uint64_t{0} - 7;
  expect_access_error(bad);
}

TEST_P(OperationError, RegionDoesNotGrantTheOperation) {
  remote_ = far_->register_memory(kLength, kAccess & ~operation().right());
  expect_access_error(request(0));
}

TEST_P(OperationError, RegionOfAnotherPdThanTheTarget) {
  remote_ = far_->register_memory(kLength, kAccess, true);
  expect_access_error(request(0));
}

TEST_P(OperationError, OperationOffInTheTargetQueuePair) {
  expect_invalid(request(0), {.access = kAccess & ~operation().right()});
}

TEST_P(OperationError, OperationOffComesBeforeTheRkey) {
  Request bad = request(0);
  bad.rkey ^= 0x5a5a00;
  expect_invalid(bad, {.access = 0});
}

TEST_P(OperationError, WithoutResponderResources) {
  const Wiring none{.access = kAccess, .max_dest_rd_atomic = 0};
  if (operation().needs_depth()) return expect_invalid(request(0), none);
  connect(none);
  post_receives();
  expect_done(request(1));
}

// Only atomics have to be aligned, and that is looked at before the key.
TEST_P(OperationError, AtAnAddressThatIsNoMultipleOfEight) {
  Request unaligned = request(1, 4);
  if (operation().is_atomic()) {
    unaligned.rkey ^= 0x5a5a00;
    return expect_invalid(unaligned);
  }
  connect();
  post_receives();
  expect_done(unaligned);
}

// The address is what peers say, and need not be where the memory is.
TEST_P(OperationError, AtAnAlignedAddressOfMemoryThatIsNot) {
  constexpr uint64_t kAddress = 0x10'0004;
  remote_ = far_->register_memory_at(kLength, kAddress, kAccess);
  remote_.address = kAddress;
  if (operation().is_atomic()) return expect_refused(request(0, 4), IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
  connect();
  post_receives();
  expect_done(request(1, 4));
}

TEST_P(OperationError, LastWordOfTheRegionIsNone) {
  connect();
  post_receives();
  expect_done(request(1, kLength - 8));
}

TEST_P(OperationError, BothEndsConnectAnewAndTheReceivesAreNotLost) {
  Request bad = request(0);
  bad.rkey ^= 0x5a5a00;
  expect_access_error(bad);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  connect();
  if (!operation().extended()) post_receives();
  expect_done(request(1));
  if (operation().opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return;
  const std::optional<ibv_wc> received = far_->poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(outcome_of(*received), (Outcome{0, IBV_WC_SUCCESS, far_address_.qpn, false}));
}

}  // namespace
}  // namespace verbatim::conformance
