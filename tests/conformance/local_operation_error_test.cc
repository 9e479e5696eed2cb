// As local_error_test.cc, for the other operations: messages, WRITEs with immediate data, atomics, and all of it over
// XRC.
#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

constexpr Operation kOperations[] = {
    {IBV_QPT_RC, IBV_WR_SEND},
    {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QPT_XRC_SEND, IBV_WR_SEND},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ},
    {IBV_QPT_XRC_SEND, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QPT_XRC_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD},
};

class LocalOperationError : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Operation>> {
 protected:
  static constexpr uint32_t kSize = 8;

  LocalOperationError() {
    set_up(std::get<0>(GetParam()), operation().opcode, kLength, operation().type, operation().extended());
    remote_ = far_->register_memory(kLength, kAccess);
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    connect({.access = kAccess});
    EXPECT_EQ(far_->post_receive(0, kReceive, {{0, kSize}}), 0);
  }
  const Operation& operation() const { return std::get<1>(GetParam()); }
  Request request(uint64_t id, uint64_t offset = 0) const { return PairTest::request(id, offset, kSize); }

  // Posts a request that is wrong, in front of good ones that nobody should execute.
  void expect_refused(Request bad, ibv_wc_status status) {
    bad.id = 7;
    Request quiet = request(8);
    quiet.flags = 0;
    EXPECT_EQ(post({bad, quiet, request(9)}), kAllPosted);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(next(), flushed(9));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
    EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0))) << "a receive was consumed";
    expect_responder_unharmed();
    if (!operation().takes_receive()) return;
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(outcome_of(*received), (Outcome{kReceive, IBV_WC_SUCCESS, far_address_.qpn, false}));
  }

  static constexpr uint64_t kReceive = 20;
};
INSTANTIATE_TEST_SUITE_P(Each, LocalOperationError, testing::Combine(every_setting(), testing::ValuesIn(kOperations)),
                         operation_name);

TEST_P(LocalOperationError, UnknownLkey) {
  Request bad = request(0);
  bad.sges[0].lkey ^= 0x5a5a00;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalOperationError, SgeStartsBeforeItsRegion) {
  Request bad = request(0);
  bad.sges[0].addr -= 1;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalOperationError, SgeEndsOneByteAfterItsRegion) {
  Request bad = request(0);
  bad.sges[0].addr = memory_->address(kLength - kSize + 1);
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalOperationError, RegionOfAnotherPd) {
  const MrHandle foreign = near_->register_memory(*memory_, kEveryAccess, near_->other_pd());
  Request bad = request(0);
  bad.sges[0].lkey = foreign->lkey;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalOperationError, WhatIsFilledByTheAnswerMustBeLocallyWritableAndWhatIsSentNeedNot) {
  const MrHandle read_only = near_->register_memory(*memory_, 0);
  Request narrow = request(1);
  narrow.sges[0].lkey = read_only->lkey;
  if (operation().needs_depth()) return expect_refused(narrow, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(post(narrow), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

// What an atomic's SGEs must total instead: AtomicLength.
TEST_P(LocalOperationError, MessageLongerThanThePortCarries) {
  if (operation().is_atomic()) return;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(near_->context(), kPort, &port), 0);
  // SGEs may name the same memory again and again: the message is long, the memory is not.
  constexpr uint32_t kSges = 32;
  const uint32_t each = port.max_msg_sz / kSges + 1;
  const Memory large(MemoryKind::anonymous, each);
  const MrHandle region = near_->register_memory(large);
  Request bad = request(0);
  bad.sges.assign(kSges, {large.address(), each, region->lkey});
  expect_refused(bad, IBV_WC_LOC_LEN_ERR);
}

}  // namespace
}  // namespace verbatim::conformance
