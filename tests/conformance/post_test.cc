// ibv_post_send(3) and ibv_post_recv(3): what is refused, and when there is room again.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

using PostWay = EachWay;
INSTANTIATE_TEST_SUITE_P(Each, PostWay, every_way(), way_name);
using Post = EachSetting;
INSTANTIATE_TEST_SUITE_P(Each, Post, every_setting(), setting_name);

int post_receive(ibv_qp* qp, uint64_t id, std::vector<ibv_sge> sges = {}) {
  ibv_recv_wr request{.wr_id = id, .sg_list = sges.data(), .num_sge = static_cast<int>(sges.size())};
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, &request, &bad);
  EXPECT_EQ(bad, error ? &request : nullptr);
  return error;
}

TEST_P(PostWay, SendIsRefusedInResetInitAndRtr) {
  const std::vector<Request> requests{request(1, 0, 64), request(2, 0, 64)};
  EXPECT_EQ(post(requests), (Posted{EINVAL, 0})) << "RESET";
  ASSERT_EQ(to_init(qp_.get()), 0);
  EXPECT_EQ(post(requests), (Posted{EINVAL, 0})) << "INIT";
  ASSERT_EQ(to_rtr(qp_.get(), far_address_), 0);
  EXPECT_EQ(post(requests), (Posted{EINVAL, 0})) << "RTR";
  ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get())), 0);
  ASSERT_EQ(to_rts(qp_.get()), 0);
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(post(request(3, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(3));
  EXPECT_TRUE(no_completion());
}

TEST_P(Post, ReceiveIsRefusedInResetOnly) {
  EXPECT_EQ(post_receive(qp_.get(), 1), EINVAL);
  ASSERT_EQ(to_init(qp_.get()), 0);
  EXPECT_EQ(post_receive(qp_.get(), 2), 0);
  ASSERT_EQ(to_rtr(qp_.get(), far_address_), 0);
  EXPECT_EQ(post_receive(qp_.get(), 3), 0);
  ASSERT_EQ(to_rts(qp_.get()), 0);
  EXPECT_EQ(post_receive(qp_.get(), 4), 0);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(post_receive(qp_.get(), 5), 0);
  for (uint64_t id = 2; id <= 5; ++id) EXPECT_EQ(next(), flushed(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(PostWay, ListStopsAtItsFirstBadEntry) {
  connect();
  Request too_many = request(3, 0, 64);
  too_many.sges.assign(kOrdinaryCapabilities.max_send_sge + 1, local(0, 1));
  EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64), too_many, request(4, 0, 64)}), (Posted{EINVAL, 2}));
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
}

TEST_P(PostWay, AsManySgesAsGranted) {
  connect();
  Request full = request(1, 0, 64);
  full.sges.assign(capabilities_of(qp_.get()).max_send_sge, local(0, 1));
  EXPECT_EQ(post(full), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(Post, OneReceiveSgeMoreThanGrantedIsRefused) {
  ASSERT_EQ(to_init(qp_.get()), 0);
  const uint32_t granted = capabilities_of(qp_.get()).max_recv_sge;
  EXPECT_EQ(post_receive(qp_.get(), 1, std::vector(granted, local(0, 1))), 0);
  EXPECT_EQ(post_receive(qp_.get(), 2, std::vector(granted + 1, local(0, 1))), EINVAL);
}

TEST_P(PostWay, SendRoomComesBackByPollingOnly) {
  connect();
  const uint32_t room = capabilities_of(qp_.get()).max_send_wr;
  for (uint32_t id = 0; id < room; ++id) EXPECT_EQ(post(request(id, 0, 8)), kAllPosted);
  EXPECT_EQ(post(request(room, 0, 8)), (Posted{ENOMEM, 0}));
  EXPECT_EQ(next(), succeeded(0));
  EXPECT_EQ(post(request(room, 0, 8)), kAllPosted);
  EXPECT_EQ(post(request(room + 1, 0, 8)), (Posted{ENOMEM, 0}));
  for (uint32_t id = 1; id <= room; ++id) EXPECT_EQ(next(), succeeded(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(PostWay, ListThatIsTooLongFillsTheQueue) {
  connect();
  const uint32_t room = capabilities_of(qp_.get()).max_send_wr;
  std::vector<Request> requests;
  for (uint32_t id = 0; id < room + 2; ++id) requests.push_back(request(id, 0, 8));
  EXPECT_EQ(post(requests), (Posted{ENOMEM, room}));
  for (uint32_t id = 0; id < room; ++id) EXPECT_EQ(next(), succeeded(id));
  EXPECT_TRUE(no_completion());
}

TEST_P(PostWay, SignaledRequestRetiresTheUnsignaledBeforeIt) {
  connect();
  const uint32_t room = capabilities_of(qp_.get()).max_send_wr;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 1; i < room; ++i) EXPECT_EQ(post(request(i, 0, 8, 0)), kAllPosted);
    EXPECT_EQ(post(request(round, 0, 8)), kAllPosted);
    EXPECT_EQ(post(request(99, 0, 8)), (Posted{ENOMEM, 0}));
    EXPECT_EQ(next(), succeeded(round));
    EXPECT_TRUE(no_completion()) << "an unsignaled request succeeds in silence";
  }
}

TEST_P(PostWay, QueueFullOfUnsignaledRequestsStaysFull) {
  connect();
  const uint32_t room = capabilities_of(qp_.get()).max_send_wr;
  for (uint32_t i = 0; i < room; ++i) EXPECT_EQ(post(request(i, 0, 8, 0)), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(5)));
  EXPECT_EQ(post(request(99, 0, 8)), (Posted{ENOMEM, 0}));
}

TEST_P(PostWay, QueuePairThatSignalsAllCompletesUnsignaledRequests) {
  qp_ = near_->create_queue_pair(kOrdinaryCapabilities, true);
  connect();
  EXPECT_EQ(post({request(1, 0, 8, 0), request(2, 0, 8, 0)}), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(next(), succeeded(2));
}

TEST_P(Post, ReceiveRoomComesBackByPollingOnly) {
  ASSERT_EQ(to_init(qp_.get()), 0);
  const uint32_t room = capabilities_of(qp_.get()).max_recv_wr;
  for (uint32_t id = 0; id < room; ++id) EXPECT_EQ(post_receive(qp_.get(), id), 0);
  EXPECT_EQ(post_receive(qp_.get(), room), ENOMEM);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(post_receive(qp_.get(), room), ENOMEM);
  EXPECT_EQ(next(), flushed(0));
  EXPECT_EQ(post_receive(qp_.get(), room), 0);
  for (uint32_t id = 1; id <= room; ++id) EXPECT_EQ(next(), flushed(id));
}

TEST_P(PostWay, SuccessfulCompletionNamesOperationAndLength) {
  connect();
  EXPECT_EQ(post(request(0x0123456789abcdef, 0, 1234)), kAllPosted);
  const std::optional<ibv_wc> completion = near_->poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->wr_id, 0x0123456789abcdef);
  EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion->opcode, reads() ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
  EXPECT_EQ(completion->qp_num, qp_->qp_num);
  EXPECT_EQ(completion->wc_flags, 0u);
  if (reads()) {
    EXPECT_EQ(completion->byte_len, 1234u);
  }
}

TEST_P(Post, InlineUpToTheLimit) {
  connect();
  const uint32_t limit = capabilities_of(qp_.get()).max_inline_data;
  ASSERT_GE(limit, kOrdinaryCapabilities.max_inline_data);
  for (uint32_t length = 0; length <= limit; ++length) {
    far_->fill(0, limit + 1, 1);
    fill(memory_->bytes(), 2);
    // Inline data needs no registered memory.
    Request inlined = request(length, 0, length, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    inlined.sges[0].lkey = 0;
    EXPECT_EQ(post(inlined), kAllPosted);
    EXPECT_EQ(next(), succeeded(length));
    EXPECT_EQ(far_->first_difference(0, length, 2, 0), std::nullopt);
    EXPECT_EQ(far_->first_difference(length, limit + 1 - length, 1, length), std::nullopt);
  }
  EXPECT_EQ(post(request(limit + 1, 0, limit + 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE)), (Posted{EINVAL, 0}));
  EXPECT_TRUE(no_completion());
}

TEST_P(Post, InlineDataOfManySgesCountsTogether) {
  connect();
  const uint32_t limit = capabilities_of(qp_.get()).max_inline_data;
  fill(memory_->bytes(), 2);
  Request inlined = request(1, 0, limit - 2, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  inlined.sges.push_back(local(limit - 2, 0));
  inlined.sges.push_back(local(limit - 2, 2));
  EXPECT_EQ(post(inlined), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->first_difference(0, limit, 2, 0), std::nullopt);
  inlined.sges.push_back(local(limit, 1));
  EXPECT_EQ(post(inlined), (Posted{EINVAL, 0}));
}

TEST_P(Post, InlineDataMayBeReusedAtOnce) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);
  std::vector<uint8_t> data(48);
  fill(data, 2);
  Request inlined = request(1, 0, 48, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  inlined.sges = {{reinterpret_cast<uint64_t>(data.data()), 48, 0}};
  EXPECT_EQ(post(inlined), kAllPosted);
  fill(data, 3);
  ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get())), 0);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->first_difference(0, 48, 2, 0), std::nullopt);
}

TEST_P(Post, ReadsWithoutInitiatorResourcesAreTheRequestersError) {
  connect({.max_rd_atomic = 0}, {});
  EXPECT_EQ(far_->post_receives(0, 1), 0);
  Request read = request(1, 0, 64);
  read.opcode = IBV_WR_RDMA_READ;
  const Posted posted = post(read);
  if (posted.error == 0) {
    EXPECT_EQ(next(), failed(1, IBV_WC_LOC_QP_OP_ERR));
  }
  EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace verbatim::conformance
