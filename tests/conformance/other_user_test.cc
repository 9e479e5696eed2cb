// A program that gives up its rights (setuid(2)) while it is connected, as servers do: its transfers go on, both ways,
// with memory that it registers afterwards too.
#include <unistd.h>

#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

constexpr uid_t kNobody = 65534;

class OtherUser : public EachSetting {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
    connect({.access = kAccess});
  }

  // WRITE, READ and SEND this way, and the other way a WRITE and a SEND.
  void expect_transfers(uint64_t seed) {
    constexpr uint32_t kEach = 4096;
    fill(memory_->bytes(0, kEach), seed);
    Request write = request(1, 0, kEach);
    Request read = request(2, kEach, kEach);
    read.opcode = IBV_WR_RDMA_READ;
    read.remote_address = remote_.address;
    Request send = request(3, 0, kEach);
    send.opcode = IBV_WR_SEND;
    ASSERT_EQ(far_->post_receive(0, seed, {{2 * kEach, kEach}}), 0);
    ASSERT_EQ(post({write, read, send}), kAllPosted);
    for (uint64_t id : {1, 2, 3}) ASSERT_EQ(next(), succeeded(id));
    EXPECT_EQ(first_difference(memory_->bytes(kEach, kEach), seed), std::nullopt);
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->status, IBV_WC_SUCCESS);
    EXPECT_EQ(far_->first_difference(2 * kEach, kEach, seed, 0), std::nullopt);

    ibv_sge sge = local(3 * kEach, kEach);
    ibv_recv_wr receive{.wr_id = seed, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &bad), 0);
    ASSERT_EQ(far_->post_send(0, {.id = 4,
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .piece = {0, kEach},
                                  .remote_address = memory_->address(2 * kEach),
                                  .rkey = region_->rkey}),
              0);
    ASSERT_EQ(far_->post_send(0, {.id = 5, .opcode = IBV_WR_SEND, .piece = {0, kEach}}), 0);
    EXPECT_EQ(next(), succeeded(seed)) << "the receive";
    for (uint64_t offset : {2 * kEach, 3 * kEach})
      EXPECT_EQ(first_difference(memory_->bytes(offset, kEach), seed), std::nullopt);
    for (uint64_t id : {4, 5}) {
      const std::optional<ibv_wc> sent = far_->poll();
      ASSERT_TRUE(sent);
      EXPECT_EQ(sent->wr_id, id);
      EXPECT_EQ(sent->status, IBV_WC_SUCCESS) << ibv_wc_status_str(sent->status);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Each, OtherUser, every_setting(), setting_name);

// For the rest of the test's process: ctest runs each test in one of its own.
TEST_P(OtherUser, MayBecomeOneWhileConnected) {
  expect_transfers(10);
  ASSERT_EQ(setgid(kNobody), 0);
  ASSERT_EQ(setuid(kNobody), 0);
  expect_transfers(11);
  region_ = near_->register_memory(*memory_, kAccess);
  expect_transfers(12);
}

}  // namespace
}  // namespace verbatim::conformance
