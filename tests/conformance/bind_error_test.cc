// A posted BIND_MW that the region, the domain or the rights do not allow (ibv_post_send(3), IBV_WR_BIND_MW).
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kBytes = 4096;

class BindError : public testing::Test {
 protected:
  BindError() { EXPECT_EQ(connect(qp_.get(), side_.address_of(qp_.get())), 0); }

  MwHandle allocate(ibv_pd* pd) const { return MwHandle(ibv_alloc_mw(pd, IBV_MW_TYPE_2)); }

  void expect_refused(ibv_mw* window, ibv_mr* region, uint64_t address, uint64_t length, unsigned access) {
    ibv_send_wr flushed{.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    ibv_send_wr bind{.wr_id = 1, .next = &flushed, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_mw = {.mw = window,
                    .rkey = ibv_inc_rkey(window->rkey),
                    .bind_info = {.mr = region, .addr = address, .length = length, .mw_access_flags = access}};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_.get(), &bind, &bad), 0);
    const std::pair<uint64_t, ibv_wc_status> expected[] = {{1, IBV_WC_MW_BIND_ERR}, {2, IBV_WC_WR_FLUSH_ERR}};
    for (const auto& [id, status] : expected) {
      const std::optional<ibv_wc> completion = side_.poll();
      ASSERT_TRUE(completion);
      EXPECT_EQ(outcome_of(*completion), (Outcome{id, status, qp_->qp_num, true}));
    }
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
  }

  const Side side_;
  const Memory memory_{MemoryKind::anonymous, kBytes};
  const MrHandle region_ = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_MW_BIND);
  const MwHandle window_ = allocate(side_.pd());
  const QpHandle qp_ = side_.create_queue_pair();
};

TEST_F(BindError, ARegionThatDoesNotLetWindowsBeBound) {
  const MrHandle closed = side_.register_memory(memory_);
  expect_refused(window_.get(), closed.get(), memory_.address(), kBytes, IBV_ACCESS_REMOTE_READ);
}

TEST_F(BindError, ARegionOfAnotherDomain) {
  const MrHandle foreign = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_MW_BIND, side_.other_pd());
  expect_refused(window_.get(), foreign.get(), memory_.address(), kBytes, IBV_ACCESS_REMOTE_READ);
}

TEST_F(BindError, AWindowOfAnotherDomain) {
  const MwHandle foreign = allocate(side_.other_pd());
  expect_refused(foreign.get(), region_.get(), memory_.address(), kBytes, IBV_ACCESS_REMOTE_READ);
}

TEST_F(BindError, OneByteMoreThanTheRegion) {
  expect_refused(window_.get(), region_.get(), memory_.address() + 1, kBytes, IBV_ACCESS_REMOTE_READ);
}

TEST_F(BindError, MoreRightsThanTheRegionHas) {
  const MrHandle read_only = side_.register_memory(memory_, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
  expect_refused(window_.get(), read_only.get(), memory_.address(), kBytes, IBV_ACCESS_REMOTE_WRITE);
}

}  // namespace
}  // namespace verbatim::conformance
