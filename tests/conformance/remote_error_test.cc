// Errors that a NIC's responder finds: both ends learn of them, each in its own way.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class RemoteError : public EachWay {
 protected:
  static constexpr uint32_t kReceives = 3;

  void expect_refused(Request bad, ibv_wc_status status, ibv_event_type event, const Wiring& far = {}) {
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    connect({}, far);
    EXPECT_EQ(far_->post_receives(0, kReceives), 0);
    bad.id = 7;
    EXPECT_EQ(post({bad, request(8, 0, 64, 0), request(9, 0, 64)}), kAllPosted);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(next(), flushed(9));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_FALSE(near_->next_event(std::chrono::milliseconds(0))) << "the requester's error is a completion, no event";
    expect_responder_broken(event, kReceives);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
  }

  void expect_access_error(const Request& bad) { expect_refused(bad, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR); }
  void expect_invalid_request(const Wiring& far) {
    expect_refused(request(0, 0, 64), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, far);
  }
  unsigned right() const { return reads() ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE; }
};
INSTANTIATE_TEST_SUITE_P(Each, RemoteError, every_way(), way_name);

TEST_P(RemoteError, UnknownRkey) {
  Request bad = request(0, 0, 64);
  bad.rkey ^= 0x5a5a00;
  expect_access_error(bad);
}

TEST_P(RemoteError, KeyPartOfTheRkeyIsWrong) {
  Request bad = request(0, 0, 64);
  bad.rkey ^= 1;
  expect_access_error(bad);
}

TEST_P(RemoteError, StartsOneByteBeforeTheRegion) {
  Request bad = request(0, 0, 64);
  bad.remote_address -= 1;
  expect_access_error(bad);
}

TEST_P(RemoteError, EndsOneByteAfterTheRegion) {
  Request bad = request(0, 0, 64);
  bad.remote_address += kLength - 63;
  expect_access_error(bad);
}

TEST_P(RemoteError, StartsAfterTheRegion) {
  Request bad = request(0, 0, 64);
  bad.remote_address += kLength + 4096;
  expect_access_error(bad);
}

TEST_P(RemoteError, WrapsAroundTheAddressSpace) {
  Request bad = request(0, 0, 64);
  bad.remote_address = ~uint64_t{0} - 31;
  expect_access_error(bad);
}

TEST_P(RemoteError, LongerThanTheRegion) {
  const Memory large(MemoryKind::anonymous, 2 * kLength);
  const MrHandle region = near_->register_memory(large);
  Request bad = request(0, 0, 64);
  bad.sges = {{large.address(), kLength + 1, region->lkey}};
  expect_access_error(bad);
}

TEST_P(RemoteError, RegionDoesNotGrantTheOperation) {
  remote_ = far_->register_memory(kLength, kEveryAccess & ~right());
  expect_access_error(request(0, 0, 64));
}

TEST_P(RemoteError, RegionGrantsNothing) {
  remote_ = far_->register_memory(kLength, IBV_ACCESS_LOCAL_WRITE);
  expect_access_error(request(0, 0, 64));
}

TEST_P(RemoteError, RegionOfAnotherPdThanTheTargetQueuePair) {
  remote_ = far_->register_memory(kLength, kEveryAccess, true);
  expect_access_error(request(0, 0, 64));
}

TEST_P(RemoteError, DeregisteredRegion) {
  connect();
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->post_receives(0, 2), 0);
  far_->deregister_memory();
  EXPECT_EQ(post(request(2, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), failed(2, IBV_WC_REM_ACCESS_ERR));
  expect_responder_broken(IBV_EVENT_QP_ACCESS_ERR, 2);
}

TEST_P(RemoteError, OperationOffInTheTargetQueuePair) { expect_invalid_request({.access = kEveryAccess & ~right()}); }

TEST_P(RemoteError, EveryOperationOffInTheTargetQueuePair) { expect_invalid_request({.access = 0}); }

TEST_P(RemoteError, OperationOffComesBeforeTheRkey) {
  Request bad = request(0, 0, 64);
  bad.rkey ^= 0x5a5a00;
  expect_refused(bad, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, {.access = 0});
}

TEST_P(RemoteError, OperationSwitchedOffLaterByTheTarget) {
  connect();
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  ibv_qp_attr narrowed{};
  narrowed.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
  EXPECT_EQ(far_->modify(0, narrowed, IBV_QP_ACCESS_FLAGS), 0);
  EXPECT_EQ(post(request(2, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), failed(2, IBV_WC_REM_INV_REQ_ERR));
  expect_responder_broken(IBV_EVENT_QP_REQ_ERR, 0);
}

TEST_P(RemoteError, NoReadsWithoutResponderResourcesButWrites) {
  const Wiring no_reads{.max_dest_rd_atomic = 0};
  if (reads()) return expect_invalid_request(no_reads);
  connect({}, no_reads);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(RemoteError, RequestersOwnAccessFlagsDoNotMatter) {
  connect({.access = 0, .max_dest_rd_atomic = 0}, {});
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(RemoteError, NothingIsLookedUpForNoData) {
  connect();
  Request empty = request(1, 0, 0);
  empty.rkey ^= 0x5a5a00;
  empty.remote_address = 1;
  Request without_sges = empty;
  without_sges.id = 2;
  without_sges.sges.clear();
  EXPECT_EQ(post({empty, without_sges}), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_EQ(post(request(3, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(3));
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
}

TEST_P(RemoteError, EndsExactlyWithTheRegion) {
  connect();
  EXPECT_EQ(post(request(1, 0, kLength)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(post(request(2, kLength - 1, 1)), kAllPosted);
  EXPECT_EQ(next(), succeeded(2));
}

TEST_P(RemoteError, BothEndsConnectAnewAndGoOn) {
  Request bad = request(0, 0, 64);
  bad.rkey ^= 0x5a5a00;
  expect_access_error(bad);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  connect();
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
}

}  // namespace
}  // namespace verbatim::conformance
