// Thread domains and parent domains: ibv_alloc_td(3), ibv_alloc_parent_domain(3).
#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

using TdHandle = std::unique_ptr<ibv_td, Release<ibv_dealloc_td>>;

class ParentDomain : public testing::Test {
 protected:
  TdHandle thread_domain() {
    ibv_td_init_attr attr{};
    return TdHandle(ibv_alloc_td(side_.context(), &attr));
  }
  PdHandle over(ibv_pd* pd, ibv_td* td = nullptr) {
    ibv_parent_domain_init_attr attr{.pd = pd, .td = td};
    return PdHandle(ibv_alloc_parent_domain(side_.context(), &attr));
  }
  // errno of creating it, 0 when that succeeds.
  int creation_error(ibv_parent_domain_init_attr attr) {
    errno = 0;
    const PdHandle parent(ibv_alloc_parent_domain(side_.context(), &attr));
    return parent ? 0 : errno;
  }
  Side side_;
  Memory memory_{MemoryKind::anonymous, 4096};
};

TEST_F(ParentDomain, ServesWhereverADomainDoes) {
  const PdHandle parent = over(side_.pd());
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->context, side_.context());
  const MrHandle mr = side_.register_memory(memory_, kEveryAccess, parent.get());
  ASSERT_TRUE(mr);
  EXPECT_EQ(mr->pd, parent.get());
  ibv_qp_init_attr init{
      .send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = IBV_QPT_RC};
  const QpHandle qp(ibv_create_qp(parent.get(), &init));
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->pd, parent.get());
  ibv_ah_attr attr{.grh = {.dgid = side_.gid()}, .is_global = 1, .port_num = kPort};
  ibv_ah* const ah = ibv_create_ah(parent.get(), &attr);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(ParentDomain, HasTheRegionsOfItsDomain) {
  const PdHandle parent = over(side_.pd());
  const MrHandle mr = side_.register_memory(memory_);
  ibv_qp_init_attr init{
      .send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = IBV_QPT_RC};
  const QpHandle qp(ibv_create_qp(parent.get(), &init));
  ASSERT_TRUE(qp);
  ASSERT_EQ(connect(qp.get(), side_.address_of(qp.get())), 0);
  ibv_sge sge{memory_.address(0), 8, mr->lkey};
  ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma = {.remote_addr = memory_.address(64), .rkey = mr->rkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
  const std::optional<ibv_wc> completion = side_.poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
}

TEST_F(ParentDomain, OutlivesNothingThatUsesIt) {
  PdHandle pd(ibv_alloc_pd(side_.context()));
  TdHandle td = thread_domain();
  PdHandle parent = over(pd.get(), td.get());
  MrHandle mr = side_.register_memory(memory_, 0, parent.get());
  EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY) << "the region is in it";
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY) << "the parent domain is over it";
  EXPECT_EQ(ibv_dealloc_td(td.get()), EBUSY) << "the parent domain has it";
  mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  parent.reset();
  td.reset();
}

TEST_F(ParentDomain, NeedsADomainAndKnownAttributes) {
  EXPECT_EQ(creation_error({.pd = nullptr}), EINVAL);
  EXPECT_EQ(creation_error({.pd = side_.pd(), .comp_mask = 1u << 31}), EINVAL);
  EXPECT_EQ(
      creation_error({.pd = side_.pd(),
                      .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
                      .alloc = [](ibv_pd*, void*, size_t, size_t, uint64_t) { return IBV_ALLOCATOR_USE_DEFAULT; },
                      .free = [](ibv_pd*, void*, void*, uint64_t) {},
                      .pd_context = this}),
      0);
}

TEST_F(ParentDomain, ThreadDomainNeedsKnownAttributes) {
  ibv_td_init_attr attr{.comp_mask = 1};
  errno = 0;
  EXPECT_EQ(ibv_alloc_td(side_.context(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ParentDomain, ThatIsLeftGoesWithItsContext) {
  ContextHandle context(ibv_open_device(side_.context()->device));
  ibv_td_init_attr td_attr{};
  ibv_parent_domain_init_attr attr{.pd = ibv_alloc_pd(context.get()), .td = ibv_alloc_td(context.get(), &td_attr)};
  EXPECT_NE(ibv_alloc_parent_domain(context.get(), &attr), nullptr);
}

}  // namespace
}  // namespace verbatim::conformance
