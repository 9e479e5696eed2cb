// Queue pairs as objects: limits, capabilities, numbers, and the order in which things may be destroyed.
#include <set>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class QpObject : public testing::Test {
 protected:
  QpObject() { EXPECT_EQ(ibv_query_device(side_.context(), &limits_), 0); }

  ibv_qp_init_attr wanted() const {
    return {.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = IBV_QPT_RC};
  }
  // errno of creating it, 0 when that succeeds.
  int creation_error(ibv_qp_init_attr init) const {
    errno = 0;
    const QpHandle qp(ibv_create_qp(side_.pd(), &init));
    return qp ? 0 : errno;
  }

  Side side_;
  ibv_device_attr limits_{};
};

TEST_F(QpObject, CapabilitiesBeyondTheDeviceAreRefused) {
  const auto with = [&](auto change) {
    ibv_qp_init_attr init = wanted();
    change(init.cap);
    return creation_error(init);
  };
  EXPECT_EQ(with([&](ibv_qp_cap& c) { c.max_send_wr = static_cast<uint32_t>(limits_.max_qp_wr) + 1; }), EINVAL);
  EXPECT_EQ(with([&](ibv_qp_cap& c) { c.max_recv_wr = static_cast<uint32_t>(limits_.max_qp_wr) + 1; }), EINVAL);
  EXPECT_EQ(with([&](ibv_qp_cap& c) { c.max_send_sge = static_cast<uint32_t>(limits_.max_sge) + 1; }), EINVAL);
  EXPECT_EQ(with([&](ibv_qp_cap& c) { c.max_recv_sge = static_cast<uint32_t>(limits_.max_sge) + 1; }), EINVAL);
  // libfabric doubles this until it is refused.
  EXPECT_EQ(with([&](ibv_qp_cap& c) { c.max_inline_data = 1u << 30; }), EINVAL);
  EXPECT_EQ(with([](ibv_qp_cap&) {}), 0);
}

TEST_F(QpObject, CapabilitiesOfTheDeviceAreGranted) {
  ibv_qp_init_attr init = wanted();
  init.cap.max_send_wr = init.cap.max_recv_wr = static_cast<uint32_t>(limits_.max_qp_wr);
  init.cap.max_send_sge = init.cap.max_recv_sge = static_cast<uint32_t>(limits_.max_sge);
  EXPECT_EQ(creation_error(init), 0);
}

// rdma_xclient sends so without having asked for it, and rdma_rxe lets it.
TEST_F(QpObject, InlineDataMayBeAsLongAsTheSgesOfARequest) {
  ibv_qp_init_attr init = wanted();
  init.cap.max_send_sge = 3;
  init.cap.max_inline_data = 0;
  const QpHandle qp(ibv_create_qp(side_.pd(), &init));
  ASSERT_TRUE(qp);
  EXPECT_GE(init.cap.max_inline_data, 3 * sizeof(ibv_sge));
}

TEST_F(QpObject, CapabilitiesAreWrittenBackAndQueried) {
  ibv_qp_init_attr init = wanted();
  init.sq_sig_all = 1;
  init.qp_context = this;
  const QpHandle qp(ibv_create_qp(side_.pd(), &init));
  ASSERT_TRUE(qp);
  EXPECT_GE(init.cap.max_send_wr, kOrdinaryCapabilities.max_send_wr);
  EXPECT_GE(init.cap.max_recv_wr, kOrdinaryCapabilities.max_recv_wr);
  EXPECT_GE(init.cap.max_send_sge, kOrdinaryCapabilities.max_send_sge);
  EXPECT_GE(init.cap.max_recv_sge, kOrdinaryCapabilities.max_recv_sge);
  EXPECT_GE(init.cap.max_inline_data, kOrdinaryCapabilities.max_inline_data);

  ibv_qp_attr attributes{};
  ibv_qp_init_attr seen{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_CAP, &seen), 0);
  for (const ibv_qp_cap& cap : {seen.cap, attributes.cap}) {
    EXPECT_EQ(cap.max_send_wr, init.cap.max_send_wr);
    EXPECT_EQ(cap.max_recv_wr, init.cap.max_recv_wr);
    EXPECT_EQ(cap.max_send_sge, init.cap.max_send_sge);
    EXPECT_EQ(cap.max_recv_sge, init.cap.max_recv_sge);
    EXPECT_EQ(cap.max_inline_data, init.cap.max_inline_data);
  }
  EXPECT_EQ(seen.qp_type, IBV_QPT_RC);
  EXPECT_EQ(seen.sq_sig_all, 1);
  EXPECT_EQ(seen.send_cq, side_.cq());
  EXPECT_EQ(seen.recv_cq, side_.cq());
  EXPECT_EQ(seen.qp_context, this);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_context, this);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->pd, side_.pd());
}

TEST_F(QpObject, NothingButQueuesOfNoRequestsIsLegal) {
  ibv_qp_init_attr init = wanted();
  init.cap = {};
  EXPECT_EQ(creation_error(init), 0);
}

TEST_F(QpObject, EachTransportIsMadeOfItsOwnType) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    ibv_qp_init_attr init = wanted();
    init.qp_type = type;
    const QpHandle qp(ibv_create_qp(side_.pd(), &init));
    ASSERT_TRUE(qp) << type;
    EXPECT_EQ(qp->qp_type, type);
  }
}

TEST_F(QpObject, QueuesInUseAreBusy) {
  const Memory memory(MemoryKind::anonymous, 4096);
  PdHandle pd(ibv_alloc_pd(side_.context()));
  CqHandle send_cq(ibv_create_cq(side_.context(), 16, nullptr, nullptr, 0));
  CqHandle receive_cq(ibv_create_cq(side_.context(), 16, nullptr, nullptr, 0));
  ibv_qp_init_attr init = wanted();
  init.send_cq = send_cq.get();
  init.recv_cq = receive_cq.get();
  QpHandle qp(ibv_create_qp(pd.get(), &init));
  MrHandle mr = side_.register_memory(memory, 0, pd.get());
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(send_cq.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receive_cq.get()), EBUSY);
  qp.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY) << "the region still needs it";
  mr.reset();
}

TEST_F(QpObject, CompletionQueueSizesAreThoseOfTheDevice) {
  const auto error = [&](int entries) {
    errno = 0;
    const CqHandle cq(ibv_create_cq(side_.context(), entries, nullptr, nullptr, 0));
    if (cq) {
      EXPECT_GE(cq->cqe, entries);
    }
    return cq ? 0 : errno;
  };
  EXPECT_EQ(error(0), EINVAL);
  EXPECT_EQ(error(-1), EINVAL);
  EXPECT_EQ(error(limits_.max_cqe + 1), EINVAL);
  EXPECT_EQ(error(1), 0);
  EXPECT_EQ(error(limits_.max_cqe), 0);
}

TEST_F(QpObject, TenThousandComeAndGoAndNoNumberComesBackSoon) {
  constexpr int kCount = 10'000;
  std::vector<uint32_t> numbers;
  for (int i = 0; i < kCount; ++i) {
    const QpHandle qp = side_.create_queue_pair({.max_send_wr = 1, .max_send_sge = 1});
    ASSERT_TRUE(qp) << "after " << i;
    EXPECT_LT(qp->qp_num, 1u << 24);
    EXPECT_GT(qp->qp_num, 1u);
    numbers.push_back(qp->qp_num);
  }
  // First in, first out: a number rests for as long as there are others.
  constexpr int kRest = 4000;
  for (int i = 0; i + kRest < kCount; i += kRest) {
    const std::set<uint32_t> different(numbers.begin() + i, numbers.begin() + i + kRest);
    EXPECT_EQ(different.size(), static_cast<size_t>(kRest));
  }
}

TEST_F(QpObject, ManyExistAtOnceAllWithTheirOwnNumber) {
  const int count = test_everything() ? limits_.max_qp : 5000;
  std::set<uint32_t> numbers;
  std::vector<QpHandle> queue_pairs;
  for (int i = 0; i < count; ++i) {
    queue_pairs.push_back(side_.create_queue_pair({.max_send_wr = 1, .max_send_sge = 1}));
    ASSERT_TRUE(queue_pairs.back()) << "after " << i;
    numbers.insert(queue_pairs.back()->qp_num);
  }
  EXPECT_EQ(numbers.size(), static_cast<size_t>(count));
  if (count == limits_.max_qp) {
    EXPECT_EQ(creation_error(wanted()), ENOMEM);
  }
}

TEST_F(QpObject, OneOfManySlotsReachesItself) {
  // More queue pairs than one slot of numbers has: the last is in another one.
  std::vector<QpHandle> queue_pairs;
  for (int i = 0; i < 4200; ++i) queue_pairs.push_back(side_.create_queue_pair({.max_send_wr = 1, .max_send_sge = 1}));
  ibv_qp* const first = queue_pairs.front().get();
  ibv_qp* const last = queue_pairs.back().get();
  ASSERT_EQ(connect(first, side_.address_of(last)), 0);
  ASSERT_EQ(connect(last, side_.address_of(first)), 0);
  const Memory memory(MemoryKind::anonymous, 4096);
  const MrHandle region = side_.register_memory(memory);
  fill(memory.bytes(0, 64), 5);
  for (ibv_qp* const qp : {first, last}) {
    EXPECT_EQ(
        post(qp, {{1, IBV_WR_RDMA_WRITE, {{memory.address(), 64, region->lkey}}, memory.address(128), region->rkey}}),
        kAllPosted);
    const std::optional<ibv_wc> completion = side_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory.bytes(128, 64), 5), std::nullopt);
    fill(memory.bytes(128, 64), 6);
  }
}

TEST_F(QpObject, DestroyedTakesItsCompletionsAlong) {
  QpHandle qp = side_.create_queue_pair();
  ASSERT_EQ(to_state(qp.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(post(qp.get(), {{.id = 1}}), kAllPosted);
  qp.reset();
  EXPECT_FALSE(side_.poll(std::chrono::milliseconds(5)));
}

// ibv_attach_mcast(3): "Only QPs of Transport Service Type IBV_QPT_UD may be attached".
TEST_F(QpObject, ThatIsConnectedIsInNoMulticastGroup) {
  const QpHandle qp = side_.create_queue_pair();
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 1;
  EXPECT_EQ(ibv_attach_mcast(qp.get(), &group, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
