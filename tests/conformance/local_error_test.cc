// Errors of the requester's own: found before anything is sent, so the responder never hears of them.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class LocalError : public EachWay {
 protected:
  // Posts a request that is wrong, in front of good ones that nobody should execute.
  void expect_refused(Request bad, ibv_wc_status status) {
    far_->fill(0, kLength, 1);
    fill(memory_->bytes(), 2);
    connect();
    EXPECT_EQ(far_->post_receives(0, 2), 0);
    bad.id = 7;
    EXPECT_EQ(post({bad, request(8, 0, 64, 0), request(9, 0, 64)}), kAllPosted);
    EXPECT_EQ(next(), failed(7, status));
    EXPECT_EQ(next(), flushed(8));
    EXPECT_EQ(next(), flushed(9));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
    EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
    EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
    EXPECT_FALSE(far_->poll(std::chrono::milliseconds(0))) << "a receive was consumed";
    expect_responder_unharmed();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, LocalError, every_way(), way_name);

TEST_P(LocalError, UnknownLkey) {
  Request bad = request(0, 0, 64);
  bad.sges[0].lkey ^= 0x5a5a00;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, LkeyOfADeregisteredRegion) {
  Request bad = request(0, 0, 64);
  {
    const MrHandle gone = near_->register_memory(*memory_);
    bad.sges[0].lkey = gone->lkey;
  }
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, SgeStartsBeforeItsRegion) {
  Request bad = request(0, 0, 64);
  bad.sges[0].addr -= 1;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, SgeEndsOneByteAfterItsRegion) {
  Request bad = request(0, 64, 64);
  bad.sges[0].addr = memory_->address(kLength - 63);
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, SgeWrapsAroundTheAddressSpace) {
  Request bad = request(0, 0, 64);
  bad.sges[0].addr = ~uint64_t{0} - 31;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, OnlyTheLastSgeIsBad) {
  Request bad = request(0, 0, 64);
  bad.sges.push_back(local(128, 64));
  bad.sges.back().lkey ^= 0x5a5a00;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, RegionOfAnotherPd) {
  const MrHandle foreign = near_->register_memory(*memory_, kEveryAccess, near_->other_pd());
  Request bad = request(0, 0, 64);
  bad.sges[0].lkey = foreign->lkey;
  expect_refused(bad, IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalError, ReadNeedsALocallyWritableSinkAndWriteDoesNot) {
  const MrHandle read_only = near_->register_memory(*memory_, 0);
  Request narrow = request(1, 0, 64);
  narrow.sges[0].lkey = read_only->lkey;
  if (reads()) return expect_refused(narrow, IBV_WC_LOC_PROT_ERR);
  connect();
  EXPECT_EQ(post(narrow), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(LocalError, MessageLongerThanThePortCarries) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(near_->context(), kPort, &port), 0);
  // SGEs may name the same memory again and again: the message is long, the memory is not.
  constexpr uint32_t kSges = 32;
  const uint32_t each = port.max_msg_sz / kSges + 1;
  const Memory large(MemoryKind::anonymous, each);
  const MrHandle region = near_->register_memory(large);
  Request bad = request(0, 0, 64);
  bad.sges.assign(kSges, {large.address(), each, region->lkey});
  expect_refused(bad, IBV_WC_LOC_LEN_ERR);
}

TEST_P(LocalError, RequestsBeforeTheBadOneAreExecuted) {
  connect();
  Request bad = request(3, 0, 64);
  bad.sges[0].lkey ^= 0x5a5a00;
  EXPECT_EQ(post({request(1, 0, 64), request(2, 64, 64), bad, request(4, 0, 64)}), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_EQ(next(), failed(3, IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(next(), flushed(4));
}

TEST_P(LocalError, UnsignaledRequestThatFailsIsReported) {
  connect();
  Request bad = request(5, 0, 64, 0);
  bad.sges[0].lkey ^= 0x5a5a00;
  EXPECT_EQ(post(bad), kAllPosted);
  EXPECT_EQ(next(), failed(5, IBV_WC_LOC_PROT_ERR));
}

TEST_P(LocalError, WhatIsPostedAfterTheErrorIsFlushedInOrder) {
  connect();
  Request bad = request(1, 0, 64);
  bad.sges[0].lkey ^= 0x5a5a00;
  EXPECT_EQ(post(bad), kAllPosted);
  EXPECT_EQ(next(), failed(1, IBV_WC_LOC_PROT_ERR));
  for (uint64_t id = 2; id < 12; ++id) EXPECT_EQ(post(request(id, 0, 64, id % 2 ? 0 : IBV_SEND_SIGNALED)), kAllPosted);
  for (uint64_t id = 2; id < 12; ++id) EXPECT_EQ(next(), flushed(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(LocalError, OwnReceivesAreFlushed) {
  connect();
  for (uint64_t id = 20; id < 23; ++id) {
    ibv_recv_wr receive{.wr_id = id};
    ibv_recv_wr* refused = nullptr;
    ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &refused), 0);
  }
  Request bad = request(1, 0, 64);
  bad.sges[0].lkey ^= 0x5a5a00;
  EXPECT_EQ(post(bad), kAllPosted);
  EXPECT_EQ(next(), failed(1, IBV_WC_LOC_PROT_ERR));
  for (uint64_t id = 20; id < 23; ++id) EXPECT_EQ(next(), flushed(id));
}

}  // namespace
}  // namespace verbatim::conformance
