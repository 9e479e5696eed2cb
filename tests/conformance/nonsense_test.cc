// Arguments that make no sense: sums that overflow, sizes and indices out of all bounds, nothing where something may be
// left out. Each has an errno, and all works afterwards.
#include <climits>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class Nonsense : public testing::Test {
 protected:
  Nonsense() { EXPECT_EQ(connect(qp_.get(), side_.address_of(qp_.get())), 0); }
  ~Nonsense() override {
    EXPECT_EQ(post(qp_.get(), {{.id = 99,
                                .sges = {{memory_.address(0), 8, region_->lkey}},
                                .remote_address = memory_.address(64),
                                .rkey = region_->rkey}}),
              kAllPosted);
    const std::optional<ibv_wc> completion = side_.poll();
    EXPECT_TRUE(completion && completion->wr_id == 99 && completion->status == IBV_WC_SUCCESS);
  }

  // errno of a call that returns NULL, 0 when it does not.
  template <class Call>
  static int error_of(Call&& call) {
    errno = 0;
    return call() ? 0 : errno;
  }
  int registration_error(uint64_t address, uint64_t length, unsigned access = kEveryAccess) const {
    return error_of([&] {
      return MrHandle((ibv_reg_mr)(side_.pd(), reinterpret_cast<void*>(address), length, static_cast<int>(access)));
    });
  }

  const Side side_;
  const Memory memory_{MemoryKind::anonymous, 4096};
  const MrHandle region_ = side_.register_memory(memory_);
  const QpHandle qp_ = side_.create_queue_pair();
};

TEST_F(Nonsense, RangesToRegister) {
  EXPECT_EQ(registration_error(0, 4096), EFAULT);
  EXPECT_EQ(registration_error(memory_.address(0), 0), EINVAL);
  EXPECT_EQ(registration_error(memory_.address(0), SIZE_MAX), EINVAL);
  EXPECT_EQ(registration_error(memory_.address(0), SIZE_MAX - memory_.address(0)), EINVAL);
  EXPECT_EQ(registration_error(UINT64_MAX, 1), EINVAL) << "its end is no address";
  EXPECT_EQ(registration_error(UINT64_MAX - 4095, 4095), EFAULT);
  EXPECT_EQ(registration_error(uint64_t{1} << 47, 4096), EFAULT) << "the kernel's half";
  EXPECT_EQ(registration_error(memory_.address(0), 8, UINT_MAX), EINVAL);
  for (const uint64_t iova : {UINT64_MAX, UINT64_MAX - 4094})
    EXPECT_EQ(
        error_of([&] { return MrHandle(ibv_reg_mr_iova2(side_.pd(), memory_.data(), 4096, iova, kEveryAccess)); }),
        EINVAL);
}

TEST_F(Nonsense, NewRangesOfARegion) {
  const auto error = [&](uint64_t address, uint64_t length) {
    errno = 0;
    return ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(address),
                        length, 0) == 0
               ? 0
               : errno;
  };
  EXPECT_EQ(error(memory_.address(0), SIZE_MAX), EINVAL);
  EXPECT_EQ(error(uint64_t{1} << 47, 4096), EFAULT);
  EXPECT_EQ(error(0, 4096), EINVAL);
}

TEST_F(Nonsense, Advice) {
  ibv_sge range{memory_.address(0), UINT32_MAX, region_->lkey};
  EXPECT_EQ(ibv_advise_mr(side_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0), EINVAL);
  EXPECT_EQ(ibv_advise_mr(side_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, UINT32_MAX, &range, 1), EINVAL);
  EXPECT_EQ(ibv_advise_mr(side_.pd(), static_cast<ibv_advise_mr_advice>(77), 0, &range, 1), EOPNOTSUPP);
  const MrHandle on_demand = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_ON_DEMAND);
  range.lkey = on_demand->lkey;
  EXPECT_EQ(ibv_advise_mr(side_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), EFAULT);
  range.addr = UINT64_MAX;
  EXPECT_EQ(ibv_advise_mr(side_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), EFAULT);
}

TEST_F(Nonsense, SizesOfQueues) {
  for (const int entries : {0, -1, INT_MIN, INT_MAX}) {
    EXPECT_EQ(error_of([&] { return CqHandle(ibv_create_cq(side_.context(), entries, nullptr, nullptr, 0)); }), EINVAL);
    EXPECT_EQ(ibv_resize_cq(side_.cq(), entries), EINVAL);
  }
  ibv_cq_init_attr_ex extended{.cqe = UINT32_MAX};
  EXPECT_EQ(ibv_create_cq_ex(side_.context(), &extended), nullptr);
  EXPECT_EQ(errno, EINVAL);
  for (const ibv_srq_attr& sizes : {ibv_srq_attr{.max_wr = UINT32_MAX, .max_sge = 1, .srq_limit = 0},
                                    ibv_srq_attr{.max_wr = 1, .max_sge = UINT32_MAX, .srq_limit = 0},
                                    ibv_srq_attr{.max_wr = 0, .max_sge = 1, .srq_limit = 0}}) {
    ibv_srq_init_attr init{.srq_context = nullptr, .attr = sizes};
    EXPECT_EQ(error_of([&] { return SrqHandle(ibv_create_srq(side_.pd(), &init)); }), EINVAL);
  }
  for (uint32_t ibv_qp_cap::*member : {&ibv_qp_cap::max_send_wr, &ibv_qp_cap::max_recv_wr, &ibv_qp_cap::max_send_sge,
                                       &ibv_qp_cap::max_recv_sge, &ibv_qp_cap::max_inline_data}) {
    ibv_qp_init_attr init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    init.cap.*member = UINT32_MAX;
    EXPECT_EQ(error_of([&] { return QpHandle(ibv_create_qp(side_.pd(), &init)); }), EINVAL);
  }
}

TEST_F(Nonsense, QueuesThatAreNotThere) {
  ibv_qp_init_attr init{.cap = kOrdinaryCapabilities};
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND}) {
    init.qp_type = type;
    init.send_cq = init.recv_cq = nullptr;
    EXPECT_EQ(error_of([&] { return QpHandle(ibv_create_qp(side_.pd(), &init)); }), EINVAL);
    init.recv_cq = side_.cq();
    EXPECT_EQ(error_of([&] { return QpHandle(ibv_create_qp(side_.pd(), &init)); }), EINVAL);
  }
}

TEST_F(Nonsense, PortsAndIndices) {
  ibv_port_attr port{};
  ibv_gid gid{};
  ibv_gid_entry entry{};
  __be16 pkey = 0;
  for (const uint8_t number : {uint8_t{0}, uint8_t{2}, uint8_t{255}}) {
    EXPECT_EQ(ibv_query_port(side_.context(), number, &port), EINVAL);
    EXPECT_NE(ibv_query_gid(side_.context(), number, 0, &gid), 0);
    EXPECT_EQ(ibv_query_gid_ex(side_.context(), number, 0, &entry, 0), EINVAL);
    EXPECT_NE(ibv_query_pkey(side_.context(), number, 0, &pkey), 0);
    EXPECT_NE(ibv_get_pkey_index(side_.context(), number, 0xffff), 0);
  }
  for (const int index : {-1, INT_MIN, INT_MAX}) {
    EXPECT_NE(ibv_query_gid(side_.context(), kPort, index, &gid), 0);
    EXPECT_EQ(ibv_query_gid_ex(side_.context(), kPort, static_cast<uint32_t>(index), &entry, 0), EINVAL);
    EXPECT_NE(ibv_query_pkey(side_.context(), kPort, index, &pkey), 0);
  }
  EXPECT_EQ(ibv_query_gid_ex(side_.context(), kPort, 0, &entry, UINT32_MAX), EINVAL);
  EXPECT_EQ(ibv_query_gid_table(side_.context(), &entry, 1, UINT32_MAX), -EINVAL);
  EXPECT_LT(ibv_query_gid_table(side_.context(), nullptr, 0, 0), 0) << "there is a GID, and no room for it";
}

TEST_F(Nonsense, Posting) {
  ibv_sge sge{memory_.address(0), 8, region_->lkey};
  ibv_send_wr send{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
  ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_send(qp_.get(), nullptr, &bad_send), 0) << "an empty list";
  EXPECT_EQ(ibv_post_recv(qp_.get(), nullptr, &bad_receive), 0);
  for (const int count : {-1, INT_MIN, INT_MAX}) {
    send.num_sge = receive.num_sge = count;
    EXPECT_EQ(ibv_post_send(qp_.get(), &send, &bad_send), EINVAL);
    EXPECT_EQ(bad_send, &send);
    EXPECT_EQ(ibv_post_recv(qp_.get(), &receive, &bad_receive), EINVAL);
    EXPECT_EQ(bad_receive, &receive);
  }
  send.num_sge = 1;
  for (const int opcode : {-1, 99, INT_MAX}) {
    send.opcode = static_cast<ibv_wr_opcode>(opcode);
    EXPECT_EQ(ibv_post_send(qp_.get(), &send, &bad_send), EINVAL);
  }
  // The sum of what is to be inline does not fit 32 bits.
  ibv_sge half[2] = {{memory_.address(0), UINT32_MAX, 0}, {memory_.address(0), 2, 0}};
  send = {.sg_list = half, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
  EXPECT_EQ(ibv_post_send(qp_.get(), &send, &bad_send), EINVAL);
  EXPECT_FALSE(side_.poll(std::chrono::nanoseconds(0)));
}

TEST_F(Nonsense, Polling) {
  EXPECT_EQ(ibv_poll_cq(side_.cq(), 0, nullptr), 0);
  EXPECT_LT(ibv_poll_cq(side_.cq(), -1, nullptr), 0);
}

TEST_F(Nonsense, Binding) {
  const MrHandle bindable = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_MW_BIND);
  const MwHandle window(ibv_alloc_mw(side_.pd(), IBV_MW_TYPE_1));
  for (const auto& [address, length] : {std::pair{memory_.address(0), UINT64_MAX},
                                        {memory_.address(8), uint64_t{4089}},
                                        {UINT64_MAX, uint64_t{2}},
                                        {memory_.address(0) - 1, uint64_t{8}}}) {
    ibv_mw_bind bind{.send_flags = IBV_SEND_SIGNALED,
                     .bind_info = {.mr = bindable.get(), .addr = address, .length = length}};
    ASSERT_EQ(ibv_bind_mw(qp_.get(), window.get(), &bind), 0);
    const std::optional<ibv_wc> completion = side_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_MW_BIND_ERR);
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(connect(qp_.get(), side_.address_of(qp_.get())), 0);
  }
}

TEST_F(Nonsense, AttributesOfAQueuePair) {
  const auto error = [&](ibv_qp_attr attributes, int mask) { return ibv_modify_qp(qp_.get(), &attributes, mask); };
  EXPECT_EQ(error({}, INT_MAX), EINVAL);
  EXPECT_EQ(error({}, -1), EINVAL);
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(77);
  EXPECT_EQ(error(attributes, IBV_QP_STATE), EINVAL);
  attributes.qp_state = IBV_QPS_UNKNOWN;
  EXPECT_EQ(error(attributes, IBV_QP_STATE), EINVAL);
  attributes = {};
  attributes.qp_access_flags = UINT_MAX;
  EXPECT_EQ(error(attributes, IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
}

TEST_F(Nonsense, WhatMayBeLeftOut) {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ASSERT_NE(devices, nullptr);
  ibv_free_device_list(devices);
  ibv_free_device_list(nullptr);
  ibv_device_attr_ex attributes{};
  EXPECT_EQ(ibv_query_device_ex(side_.context(), nullptr, &attributes), 0);
}

}  // namespace
}  // namespace verbatim::conformance
