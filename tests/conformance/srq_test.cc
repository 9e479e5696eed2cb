// Shared receive queues as objects: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_modify_srq(3), ibv_query_srq(3),
// ibv_post_srq_recv(3). What messages do to them is in message_test.cc.
#include <fcntl.h>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kRequests = 8;
constexpr uint32_t kSges = 2;

class SharedQueue : public testing::Test {
 protected:
  SharedQueue() { EXPECT_EQ(ibv_query_device(side_.context(), &limits_), 0); }

  ibv_srq* create(ibv_srq_attr attr) const {
    ibv_srq_init_attr init{.srq_context = nullptr, .attr = attr};
    errno = 0;
    return ibv_create_srq(side_.pd(), &init);
  }
  int creation_error(ibv_srq_attr attr) const { return SrqHandle(create(attr)) ? 0 : errno; }
  static int post(ibv_srq* srq, uint64_t id, int sges = 0) {
    ibv_sge list[kSges + 1]{};
    ibv_recv_wr request{.wr_id = id, .sg_list = list, .num_sge = sges};
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_srq_recv(srq, &request, &bad);
    EXPECT_EQ(bad, error ? &request : nullptr);
    return error;
  }
  static ibv_srq_attr query(ibv_srq* srq) {
    ibv_srq_attr attr{};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    return attr;
  }

  Side side_;
  ibv_device_attr limits_{};
};

TEST_F(SharedQueue, SizesAreGrantedUpToTheLimitsOfTheDevice) {
  const auto most_requests = static_cast<uint32_t>(limits_.max_srq_wr);
  const auto most_sges = static_cast<uint32_t>(limits_.max_srq_sge);
  ASSERT_GT(limits_.max_srq, 0);
  EXPECT_EQ(creation_error({.max_wr = most_requests, .max_sge = most_sges}), 0);
  EXPECT_EQ(creation_error({.max_wr = most_requests + 1, .max_sge = 1}), EINVAL);
  EXPECT_EQ(creation_error({.max_wr = 1, .max_sge = most_sges + 1}), EINVAL);
  EXPECT_EQ(creation_error({.max_wr = UINT32_MAX, .max_sge = UINT32_MAX}), EINVAL);
  EXPECT_EQ(creation_error({.max_wr = 0, .max_sge = 1}), EINVAL);
}

TEST_F(SharedQueue, SaysWhatItIs) {
  ibv_srq_init_attr init{.srq_context = this, .attr = {.max_wr = kRequests, .max_sge = kSges}};
  const SrqHandle srq(ibv_create_srq(side_.pd(), &init));
  ASSERT_TRUE(srq);
  EXPECT_GE(init.attr.max_wr, kRequests);
  EXPECT_GE(init.attr.max_sge, kSges);
  EXPECT_EQ(srq->srq_context, this);
  EXPECT_EQ(srq->context, side_.context());
  EXPECT_EQ(srq->pd, side_.pd());
  const ibv_srq_attr seen = query(srq.get());
  EXPECT_EQ(seen.max_wr, init.attr.max_wr);
  EXPECT_EQ(seen.max_sge, init.attr.max_sge);
  EXPECT_EQ(seen.srq_limit, 0u);
}

TEST_F(SharedQueue, TheLimitIsThatOfModify) {
  const SrqHandle srq(create({.max_wr = kRequests, .max_sge = kSges, .srq_limit = 3}));
  EXPECT_EQ(query(srq.get()).srq_limit, 0u) << "irrelevant for ibv_create_srq";
  for (uint64_t id = 0; id < 5; ++id) EXPECT_EQ(post(srq.get(), id), 0);
  ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 5};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, 0), 0);
  EXPECT_EQ(query(srq.get()).srq_limit, 0u);
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(query(srq.get()).srq_limit, 5u);
  attr.srq_limit = kRequests + 1;
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(query(srq.get()).srq_limit, 5u);
  EXPECT_FALSE(side_.next_event(std::chrono::milliseconds(0)));
}

TEST_F(SharedQueue, CannotBeResizedAsTheDeviceSays) {
  EXPECT_EQ(limits_.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  const SrqHandle srq(create({.max_wr = kRequests, .max_sge = kSges}));
  ibv_srq_attr attr{.max_wr = 2 * kRequests, .max_sge = kSges, .srq_limit = 1};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(query(srq.get()).srq_limit, 0u);
}

TEST_F(SharedQueue, FewerReceivesThanTheLimitAreAnEventAndDisarmIt) {
  ibv_srq* const srq = create({.max_wr = kRequests, .max_sge = kSges});
  ASSERT_EQ(post(srq, 1), 0);
  ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  std::optional<ibv_async_event> event = side_.next_event(kSoon);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->element.srq, srq);
  EXPECT_EQ(query(srq).srq_limit, 0u);
  ibv_ack_async_event(&*event);
  EXPECT_FALSE(side_.next_event(std::chrono::milliseconds(0)));
  EXPECT_EQ(ibv_destroy_srq(srq), 0) << "after its event is acknowledged";
}

TEST_F(SharedQueue, PostingIsRefusedBeyondItsSizes) {
  const SrqHandle srq(create({.max_wr = kRequests, .max_sge = kSges}));
  const ibv_srq_attr granted = query(srq.get());
  EXPECT_EQ(post(srq.get(), 0, static_cast<int>(granted.max_sge) + 1), EINVAL);
  EXPECT_EQ(post(srq.get(), 0, -1), EINVAL);
  for (uint64_t id = 0; id < granted.max_wr; ++id) EXPECT_EQ(post(srq.get(), id), 0);
  EXPECT_EQ(post(srq.get(), 99), ENOMEM);
}

TEST_F(SharedQueue, AListStopsAtItsFirstBadEntry) {
  const SrqHandle srq(create({.max_wr = 2, .max_sge = kSges}));
  ibv_recv_wr list[3]{{.wr_id = 1, .next = &list[1]}, {.wr_id = 2, .next = &list[2]}, {.wr_id = 3}};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), list, &bad), ENOMEM);
  EXPECT_EQ(bad, &list[2]);
}

TEST_F(SharedQueue, IsInUseWhileAQueuePairTakesFromIt) {
  SrqHandle srq(create({.max_wr = kRequests, .max_sge = kSges}));
  QpHandle qp = side_.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_RC, srq.get());
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->srq, srq.get());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.srq, srq.get());
  EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(to_init(qp.get()), 0);
  EXPECT_EQ(ibv_post_recv(qp.get(), &request, &bad), EINVAL) << "it has no receive queue of its own";
  qp.reset();
}

TEST_F(SharedQueue, KeepsItsDomainInUse) {
  const SrqHandle srq(create({.max_wr = kRequests, .max_sge = kSges}));
  EXPECT_EQ(ibv_dealloc_pd(side_.pd()), EBUSY);
}

// ---- ibv_create_srq_ex ----

class ExtendedSharedQueue : public SharedQueue {
 protected:
  ExtendedSharedQueue() {
    ibv_xrcd_init_attr init{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    domain_ = ibv_open_xrcd(side_.context(), &init);
    EXPECT_TRUE(domain_);
  }
  ~ExtendedSharedQueue() override { EXPECT_EQ(ibv_close_xrcd(domain_), 0); }

  ibv_srq_init_attr_ex xrc() const {
    return {.attr = {.max_wr = kRequests, .max_sge = kSges},
            .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
            .srq_type = IBV_SRQT_XRC,
            .pd = side_.pd(),
            .xrcd = domain_,
            .cq = side_.cq()};
  }
  int extended_error(ibv_srq_init_attr_ex init) const {
    errno = 0;
    return SrqHandle(ibv_create_srq_ex(side_.context(), &init)) ? 0 : errno;
  }

  ibv_xrcd* domain_ = nullptr;
};

TEST_F(ExtendedSharedQueue, AnXrcOneHasANumberAndKeepsWhatItUses) {
  ibv_srq_init_attr_ex init = xrc();
  const SrqHandle srq(ibv_create_srq_ex(side_.context(), &init));
  ASSERT_TRUE(srq);
  init = xrc();
  const SrqHandle other(ibv_create_srq_ex(side_.context(), &init));
  ASSERT_TRUE(other);
  uint32_t number = 0, other_number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq.get(), &number), 0);
  EXPECT_EQ(ibv_get_srq_num(other.get(), &other_number), 0);
  EXPECT_NE(number, other_number);
  EXPECT_EQ(ibv_close_xrcd(domain_), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(side_.cq()), EBUSY);
}

TEST_F(ExtendedSharedQueue, ABasicOneNeedsNoMore) {
  ibv_srq_init_attr_ex init = xrc();
  init.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  EXPECT_EQ(extended_error(init), 0);
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  init.srq_type = IBV_SRQT_BASIC;
  EXPECT_EQ(extended_error(init), 0);
}

TEST_F(ExtendedSharedQueue, WhatIsMissingIsInvalid) {
  for (const uint32_t missing : {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ}) {
    ibv_srq_init_attr_ex init = xrc();
    init.comp_mask &= ~missing;
    EXPECT_EQ(extended_error(init), EINVAL) << missing;
  }
  ibv_srq_init_attr_ex init = xrc();
  init.cq = nullptr;
  EXPECT_EQ(extended_error(init), EINVAL);
  init = xrc();
  init.srq_type = static_cast<ibv_srq_type>(77);
  EXPECT_EQ(extended_error(init), EINVAL);
  init = xrc();
  init.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
  EXPECT_EQ(extended_error(init), EOPNOTSUPP);
}

TEST_F(ExtendedSharedQueue, AQueuePairOfAnotherTypeDoesNotTakeFromAnXrcOne) {
  ibv_srq_init_attr_ex init = xrc();
  const SrqHandle srq(ibv_create_srq_ex(side_.context(), &init));
  ASSERT_TRUE(srq);
  ibv_qp_init_attr wanted{.send_cq = side_.cq(), .recv_cq = side_.cq(), .srq = srq.get(), .cap = kOrdinaryCapabilities};
  wanted.qp_type = IBV_QPT_RC;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(side_.pd(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
