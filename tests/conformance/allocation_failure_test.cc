// Each allocation of each call fails once: the call says ENOMEM, nothing is left behind that would keep what it used
// busy, and the same call succeeds the next time.
#include <arpa/inet.h>
#include <fcntl.h>

#include "conformance/support/first_meeting.h"
#include "conformance/support/fresh_process.h"
#include "support/failing_allocation.h"

namespace verbatim::conformance {
namespace {

using testing_support::FailingAllocation;

// `attempt` returns an errno. When none of its allocations is left to fail, it must succeed.
template <class Attempt>
void fail_each_allocation(Attempt&& attempt) {
  for (unsigned others = 0; others < 1000; ++others) {
    SCOPED_TRACE("allocations before the one that fails: " + std::to_string(others));
    int error = 0;
    bool failed = false;
    {
      const FailingAllocation failing(others);
      error = attempt();
      failed = failing.has_come();
    }
    // Some can be done without.
    if (failed && error == 0) continue;
    ASSERT_EQ(error, failed ? ENOMEM : 0) << strerror(error);
    if (!failed) {
      EXPECT_GT(others, 0u) << "nothing was allocated";
      return;
    }
  }
  FAIL() << "no end of allocations";
}

// `create` returns an object of ours, or NULL with errno.
template <class Create>
void fail_each_allocation_of(Create&& create) {
  decltype(create()) made{};
  fail_each_allocation([&] {
    errno = 0;
    made = create();
    return made ? 0 : errno;
  });
  EXPECT_TRUE(made);
  // What is freed needs no memory for that, unless the agent has just sent news, which is taken in first.
  const FailingAllocation failing(0);
  made = {};
  EXPECT_FALSE(failing.has_come());
}

using TdHandle = std::unique_ptr<ibv_td, decltype([](ibv_td* td) { EXPECT_EQ(ibv_dealloc_td(td), 0); })>;

class AllocationFailure : public testing::Test {
 protected:
  void SetUp() override {
    if (!FailingAllocation::kPossible) GTEST_SKIP() << "a sanitizer has the allocation to itself";
  }

  const Side side_;
  const Memory memory_{MemoryKind::anonymous, 8192};
};

TEST(FirstAllocationFailure, InOpeningTheDeviceOfAProcess) {
  if (!FailingAllocation::kPossible) GTEST_SKIP() << "a sanitizer has the allocation to itself";
  in_fresh_process([] {
    ibv_device** devices = nullptr;
    fail_each_allocation_of([&] { return devices = ibv_get_device_list(nullptr); });
    fail_each_allocation_of([&] { return ContextHandle(ibv_open_device(devices[0])); });
    ibv_free_device_list(devices);
  });
}

TEST_F(AllocationFailure, InOpeningAnotherContext) {
  fail_each_allocation_of([&] { return ContextHandle(ibv_open_device(side_.context()->device)); });
}

TEST_F(AllocationFailure, InDomains) {
  fail_each_allocation_of([&] { return PdHandle(ibv_alloc_pd(side_.context())); });
  const PdHandle of_its_own(ibv_alloc_pd(side_.context()));
  TdHandle thread_domain;
  fail_each_allocation([&] {
    ibv_td_init_attr attr{};
    thread_domain.reset(ibv_alloc_td(side_.context(), &attr));
    return thread_domain ? 0 : errno;
  });
  fail_each_allocation_of([&] {
    ibv_parent_domain_init_attr attr{.pd = of_its_own.get(), .td = thread_domain.get()};
    return PdHandle(ibv_alloc_parent_domain(side_.context(), &attr));
  });
  fail_each_allocation_of([&] {
    ibv_xrcd_init_attr init{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    return XrcDomainHandle(ibv_open_xrcd(side_.context(), &init));
  });
}

TEST_F(AllocationFailure, InRegions) {
  const Memory file(MemoryKind::file, 8192);
  for (const Memory* memory : {&memory_, &file}) {
    const auto start = reinterpret_cast<uint64_t>(memory->data());
    MrHandle region;
    fail_each_allocation([&] {
      region.reset(ibv_reg_mr(side_.pd(), memory->data(), 4096, kEveryAccess));
      return region ? 0 : errno;
    });
    fail_each_allocation([&] {
      return ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory->data() + 4096, 4096, 0) == 0
                 ? 0
                 : errno;
    });
    EXPECT_EQ(region->addr, memory->data() + 4096);
    fail_each_allocation_of(
        [&] { return MrHandle(ibv_reg_mr_iova2(side_.pd(), memory->data(), 4096, start + 64, kEveryAccess)); });
  }
  fail_each_allocation_of([&] { return MrHandle(ibv_alloc_null_mr(side_.pd())); });
  const MrHandle on_demand = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_ON_DEMAND);
  ibv_sge range{memory_.address(), 4096, on_demand->lkey};
  fail_each_allocation(
      [&] { return ibv_advise_mr(side_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1); });
}

TEST_F(AllocationFailure, InWindows) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2})
    fail_each_allocation_of([&] { return MwHandle(ibv_alloc_mw(side_.pd(), type)); });
}

TEST_F(AllocationFailure, InQueues) {
  const std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>> channel(
      ibv_create_comp_channel(side_.context()));
  fail_each_allocation_of([&] {
    return std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>(
        ibv_create_comp_channel(side_.context()));
  });
  CqHandle cq;
  fail_each_allocation([&] {
    cq.reset(ibv_create_cq(side_.context(), 10, nullptr, channel.get(), 0));
    return cq ? 0 : errno;
  });
  fail_each_allocation([&] { return ibv_resize_cq(cq.get(), 1000); });
  const PdHandle of_its_own(ibv_alloc_pd(side_.context()));
  ibv_parent_domain_init_attr over{.pd = of_its_own.get()};
  const PdHandle parent(ibv_alloc_parent_domain(side_.context(), &over));
  fail_each_allocation_of([&] {
    ibv_cq_init_attr_ex init{.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent.get()};
    return CqHandle(ibv_cq_ex_to_cq(ibv_create_cq_ex(side_.context(), &init)));
  });
  fail_each_allocation_of([&] {
    ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 4}};
    return SrqHandle(ibv_create_srq(side_.pd(), &init));
  });
  const XrcDomainHandle domain = side_.open_xrc_domain();
  fail_each_allocation_of([&] {
    ibv_srq_init_attr_ex init{
        .attr = {.max_wr = 16, .max_sge = 4},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = side_.pd(),
        .xrcd = domain.get(),
        .cq = side_.cq()};
    return SrqHandle(ibv_create_srq_ex(side_.context(), &init));
  });
}

TEST_F(AllocationFailure, InQueuePairs) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    fail_each_allocation_of([&] {
      ibv_qp_init_attr init{
          .send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = type};
      return QpHandle(ibv_create_qp(side_.pd(), &init));
    });
  }
  fail_each_allocation_of([&] {
    ibv_qp_init_attr_ex init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = side_.pd();
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    return QpHandle(ibv_create_qp_ex(side_.context(), &init));
  });
  const XrcDomainHandle domain = side_.open_xrc_domain();
  QpHandle receiver;
  fail_each_allocation([&] {
    ibv_qp_init_attr_ex init{.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
    init.xrcd = domain.get();
    receiver.reset(ibv_create_qp_ex(side_.context(), &init));
    return receiver ? 0 : errno;
  });
  fail_each_allocation_of([&] {
    ibv_qp_open_attr open{.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
                          .qp_num = receiver->qp_num,
                          .xrcd = domain.get(),
                          .qp_type = IBV_QPT_XRC_RECV};
    return QpHandle(ibv_open_qp(side_.context(), &open));
  });
}

TEST_F(AllocationFailure, InAddressHandles) {
  fail_each_allocation_of([&] {
    ibv_ah_attr address{.grh = {.dgid = side_.gid(), .hop_limit = 64}, .is_global = 1, .port_num = kPort};
    return AhHandle(ibv_create_ah(side_.pd(), &address));
  });
}

TEST_F(AllocationFailure, InGroups) {
  const QpHandle qp = side_.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_UD);
  ibv_gid group{};
  ASSERT_EQ(inet_pton(AF_INET6, "ff0e::1:2", &group), 1);
  fail_each_allocation([&] { return ibv_attach_mcast(qp.get(), &group, 0); });
  EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0);
}

// The first of them also makes this process known to the agent, and asks for the other.
class AllocationFailureInMeeting : public AllocationFailure, public testing::WithParamInterface<Setting> {};
INSTANTIATE_TEST_SUITE_P(Each, AllocationFailureInMeeting, direct_processes(), setting_name);

TEST_P(AllocationFailureInMeeting, OfQueuePairsThatConnectAndTransfer) {
  const FirstMeeting meeting(GetParam());
  ibv_qp* const qp = meeting.qp.get();
  fail_each_allocation([&] {
    if (to_state(qp, IBV_QPS_RESET) != 0 || to_init(qp) != 0) return EIO;
    return to_rtr(qp, meeting.far);
  });
  ASSERT_EQ(to_rts(qp), 0);
  ASSERT_EQ(meeting.peer->connect(0, meeting.side.address_of(qp)), 0);
  meeting.expect_a_write_to_arrive();
}

// Nobody could be told of it: posting and polling wait until there is memory.
TEST_P(AllocationFailureInMeeting, OfTransfersIsAWait) {
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
  bool failed = true;
  for (unsigned others = 0; failed && !HasFailure(); ++others) {
    ASSERT_LT(others, 1000u) << "no end of allocations";
    const FirstMeeting meeting(GetParam());
    ibv_qp* const qp = meeting.qp.get();
    ASSERT_EQ(meeting.peer->connect(0, meeting.side.address_of(qp)), 0);
    ASSERT_EQ(connect(qp, meeting.far), 0);
    ASSERT_EQ(meeting.peer->post_receive(0, 0, {{0, FirstMeeting::kBytes}}), 0);
    ASSERT_EQ(meeting.peer->post_receive(0, 1, {}), 0);
    ibv_sge sge{meeting.memory.address(), FirstMeeting::kBytes, meeting.region->lkey};
    ibv_send_wr requests[std::size(kOpcodes)] = {};
    for (size_t i = 0; i < std::size(kOpcodes); ++i) {
      requests[i] = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = kOpcodes[i], .send_flags = IBV_SEND_SIGNALED};
      requests[i].wr.rdma = {.remote_addr = meeting.there.address, .rkey = meeting.there.rkey};
      if (i + 1 < std::size(kOpcodes)) requests[i].next = &requests[i + 1];
    }
    int error = 0;
    ibv_wc completions[std::size(kOpcodes)] = {};
    int completed = 0;
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    {
      const FailingAllocation failing(others);
      ibv_send_wr* bad = nullptr;
      error = ibv_post_send(qp, requests, &bad);
      while (error == 0 && completed < static_cast<int>(std::size(kOpcodes)) &&
             std::chrono::steady_clock::now() < deadline)
        completed += ibv_poll_cq(meeting.side.cq(), 1, &completions[completed]);
      failed = failing.has_come();
    }
    EXPECT_EQ(error, 0);
    ASSERT_EQ(completed, static_cast<int>(std::size(kOpcodes)));
    for (const ibv_wc& completion : completions) EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  }
}

}  // namespace
}  // namespace verbatim::conformance
