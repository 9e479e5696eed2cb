// ibv_alloc_mw(3) and what ibv_bind_mw(3) refuses to post.
#include <cerrno>
#include <vector>

#include "conformance/support/window.h"

namespace verbatim::conformance {
namespace {

class MemoryWindow : public testing::Test {
 protected:
  MwHandle allocate(ibv_mw_type type = IBV_MW_TYPE_1, ibv_pd* pd = nullptr) const {
    return MwHandle(ibv_alloc_mw(pd ? pd : side_.pd(), type));
  }

  Side side_;
};

TEST_F(MemoryWindow, SaysWhatItIs) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    const MwHandle window = allocate(type);
    ASSERT_TRUE(window);
    EXPECT_EQ(window->type, type);
    EXPECT_EQ(window->pd, side_.pd());
    EXPECT_EQ(window->context, side_.context());
    EXPECT_NE(window->rkey & ~0xffu, 0u);
  }
}

TEST_F(MemoryWindow, OfNoTypeIsRefused) {
  for (const int type : {0, 3}) {
    errno = 0;
    EXPECT_EQ(ibv_alloc_mw(side_.pd(), static_cast<ibv_mw_type>(type)), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(MemoryWindow, IsAUserOfItsPd) {
  ibv_pd* const pd = ibv_alloc_pd(side_.context());
  MwHandle window = allocate(IBV_MW_TYPE_2, pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  window.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MemoryWindow, ARegionIsBusyWhileOneIsBoundToIt) {
  const Memory memory(MemoryKind::anonymous, 4096);
  MrHandle region = side_.register_memory(memory, kEveryAccess | IBV_ACCESS_MW_BIND);
  const QpHandle qp = side_.create_queue_pair();
  ASSERT_EQ(connect(qp.get(), side_.address_of(qp.get())), 0);
  MwHandle window = allocate();
  ibv_mw_bind bind{
      .wr_id = 1,
      .send_flags = IBV_SEND_SIGNALED,
      .bind_info = {
          .mr = region.get(), .addr = memory.address(), .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
  ASSERT_EQ(ibv_bind_mw(qp.get(), window.get(), &bind), 0);
  ASSERT_TRUE(side_.poll());
  EXPECT_EQ(ibv_dereg_mr(region.get()), EBUSY);
  window.reset();
}

TEST_F(MemoryWindow, TheDeviceSaysThatItHasThem) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(side_.context(), &attributes), 0);
  EXPECT_GT(attributes.max_mw, 0);
  EXPECT_TRUE(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
  EXPECT_TRUE(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  EXPECT_FALSE(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
}

TEST_F(MemoryWindow, WhatCannotBeBoundByACallIsNotPosted) {
  const Memory memory(MemoryKind::anonymous, 4096);
  const MrHandle region = side_.register_memory(memory, kEveryAccess | IBV_ACCESS_MW_BIND);
  const MrHandle elsewhere = side_.register_memory(memory, kEveryAccess | IBV_ACCESS_MW_BIND, side_.other_pd());
  const QpHandle qp = side_.create_queue_pair();
  const MwHandle one = allocate();
  const MwHandle two = allocate(IBV_MW_TYPE_2);
  const MwHandle foreign = allocate(IBV_MW_TYPE_1, side_.other_pd());
  const auto bind = [&](ibv_mw* window, ibv_mr* mr, uint64_t length) {
    ibv_mw_bind request{.bind_info = {.mr = mr, .addr = memory.address(), .length = length}};
    const uint32_t before = window->rkey;
    const int error = ibv_bind_mw(qp.get(), window, &request);
    EXPECT_EQ(window->rkey, before);
    return error;
  };
  EXPECT_EQ(bind(two.get(), region.get(), 8), EINVAL) << "type 2 is bound by ibv_post_send";
  EXPECT_EQ(bind(one.get(), nullptr, 8), EINVAL);
  EXPECT_EQ(bind(foreign.get(), region.get(), 8), EPERM);
  EXPECT_EQ(bind(one.get(), elsewhere.get(), 8), EPERM);
  EXPECT_EQ(bind(one.get(), region.get(), 8), EINVAL) << "the queue pair is in RESET";
}

}  // namespace
}  // namespace verbatim::conformance
