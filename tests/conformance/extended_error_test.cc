// ATOMIC_WRITE and FLUSH that the target refuses. Both are posted by builders alone.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

// As <infiniband/verbs.h> has them from release 45 on.
struct NewerQueuePair {
  ibv_qp_ex base;
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type, uint8_t level);
};
constexpr uint64_t kWithFlush = 1 << 11;                        // IBV_QP_EX_WITH_FLUSH
constexpr unsigned kFlushGlobal = 256, kFlushPersistent = 512;  // IBV_ACCESS_FLUSH_…
constexpr uint8_t kToView = 1, kToMedia = 2;                    // IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT
constexpr unsigned kAccess = kEveryAccess | kFlushGlobal;

enum class Built { atomic_write, flush };

std::string built_name(const testing::TestParamInfo<std::tuple<Setting, Built>>& info) {
  return name(std::get<0>(info.param)) + (std::get<1>(info.param) == Built::flush ? "Flush" : "AtomicWrite");
}

class BuiltOperationError : public PairTest, public testing::WithParamInterface<std::tuple<Setting, Built>> {
 protected:
  static constexpr uint32_t kReceives = 2;

  BuiltOperationError() {
    set_up(std::get<0>(GetParam()), IBV_WR_RDMA_WRITE);
    ibv_qp_init_attr_ex init{.send_cq = near_->cq(), .recv_cq = near_->cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = near_->pd();
    init.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | kWithFlush;
    qp_.reset(ibv_create_qp_ex(near_->context(), &init));
    EXPECT_TRUE(qp_) << strerror(errno);
    register_far(kAccess);
  }
  bool flushes() const { return std::get<1>(GetParam()) == Built::flush; }
  unsigned right() const { return flushes() ? kFlushGlobal : unsigned{IBV_ACCESS_REMOTE_WRITE}; }

  void register_far(unsigned access, bool other_pd = false) {
    remote_ = far_->register_memory(kLength, access, other_pd);
    far_->fill(0, kLength, 1);
  }
  void build(uint64_t id, uint64_t address, uint32_t rkey, uint8_t type = kToView) const {
    constexpr uint64_t kWord = 0x1122334455667788;
    ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp_.get());
    builder->wr_id = id;
    builder->wr_flags = IBV_SEND_SIGNALED;
    if (flushes())
      reinterpret_cast<const NewerQueuePair*>(builder)->wr_flush(builder, rkey, address, 64, type, 0);
    else
      ibv_wr_atomic_write(builder, rkey, address, &kWord);
  }
  void post(uint64_t id, uint64_t address, uint32_t rkey, uint8_t type = kToView) const {
    ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp_.get());
    ibv_wr_start(builder);
    build(id, address, rkey, type);
    build(id + 1, remote_.address, remote_.rkey);
    EXPECT_EQ(ibv_wr_complete(builder), 0);
  }

  void expect_refused(uint64_t address, uint32_t rkey, ibv_wc_status status, ibv_event_type event,
                      const Wiring& far = {.access = kAccess}, uint8_t type = kToView) {
    connect({}, far);
    EXPECT_EQ(far_->post_receives(0, kReceives), 0);
    post(7, address, rkey, type);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    expect_responder_broken(event, kReceives);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  }
  void expect_access_error(uint64_t address, uint32_t rkey) {
    expect_refused(address, rkey, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  void expect_invalid(uint64_t address, uint32_t rkey, const Wiring& far = {.access = kAccess}) {
    expect_refused(address, rkey, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, far);
  }
  void expect_done(uint64_t address, uint8_t type = kToView, unsigned access = kAccess) {
    connect({}, {.access = access});
    post(1, address, remote_.rkey, type);
    EXPECT_EQ(next(), succeeded(1));
    EXPECT_EQ(next(), succeeded(2));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, BuiltOperationError,
                         testing::Combine(every_setting(), testing::Values(Built::atomic_write, Built::flush)),
                         built_name);

TEST_P(BuiltOperationError, UnknownRkey) { expect_access_error(remote_.address, remote_.rkey ^ 0x5a5a00); }
TEST_P(BuiltOperationError, KeyPartOfTheRkeyIsWrong) { expect_access_error(remote_.address, remote_.rkey ^ 1); }
TEST_P(BuiltOperationError, StartsBeforeTheRegion) { expect_access_error(remote_.address - 8, remote_.rkey); }
TEST_P(BuiltOperationError, EndsAfterTheRegion) {
  expect_access_error(remote_.address + kLength - (flushes() ? 56 : 0), remote_.rkey);
}
TEST_P(BuiltOperationError, RegionDoesNotGrantIt) {
  register_far(kAccess & ~right());
  expect_access_error(remote_.address, remote_.rkey);
}
TEST_P(BuiltOperationError, RegionOfAnotherPd) {
  register_far(kAccess, true);
  expect_access_error(remote_.address, remote_.rkey);
}
TEST_P(BuiltOperationError, OffInTheTargetQueuePair) {
  expect_invalid(remote_.address, remote_.rkey ^ 0x5a5a00, {.access = kAccess & ~right()});
}
// A word is never torn; a range may begin anywhere.
TEST_P(BuiltOperationError, AtAnAddressThatIsNoMultipleOfEight) {
  if (flushes()) return expect_done(remote_.address + 4);
  expect_invalid(remote_.address + 4, remote_.rkey ^ 0x5a5a00);
}
TEST_P(BuiltOperationError, LastBytesOfTheRegionAreNone) { expect_done(remote_.address + kLength - 64); }
TEST_P(BuiltOperationError, NeitherNeedsResponderResources) {
  connect({}, {.access = kAccess, .max_dest_rd_atomic = 0});
  post(1, remote_.address, remote_.rkey);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
}

// Each kind of flush has a right of its own.
using PersistentFlush = BuiltOperationError;
INSTANTIATE_TEST_SUITE_P(Each, PersistentFlush, testing::Combine(every_setting(), testing::Values(Built::flush)),
                         built_name);

TEST_P(PersistentFlush, RegionGrantsOnlyTheGlobalOne) {
  expect_refused(remote_.address, remote_.rkey, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
                 {.access = kAccess | kFlushPersistent}, kToMedia);
}
TEST_P(PersistentFlush, TargetAllowsOnlyTheGlobalOne) {
  expect_refused(remote_.address, remote_.rkey, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, {.access = kAccess},
                 kToMedia);
}

}  // namespace
}  // namespace verbatim::conformance
