// UD within one process: who a message is for is said by the request, who it is from by the completion and by the 40
// bytes before the message.
#include <arpa/inet.h>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kQkey = 0x11223344;
constexpr uint32_t kHeader = 40;
constexpr uint32_t kLength = 512;

class Datagram : public testing::Test {
 protected:
  Datagram() : region_(side_.register_memory(memory_)) {
    ibv_qp_init_attr_ex init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_UD;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = side_.pd();
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    sender_.reset(ibv_create_qp_ex(side_.context(), &init));
    receiver_ = side_.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_UD);
    for (ibv_qp* const qp : {sender_.get(), receiver_.get()}) make_ready(qp);
    ibv_ah_attr address{};
    address.grh.dgid = side_.gid();
    address.grh.hop_limit = 64;
    address.is_global = 1;
    address.port_num = kPort;
    handle_ = ibv_create_ah(side_.pd(), &address);
    EXPECT_TRUE(handle_) << strerror(errno);
  }
  ~Datagram() override {
    sender_.reset();
    receiver_.reset();
    EXPECT_EQ(ibv_destroy_ah(handle_), 0);
  }

  static void make_ready(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = kPort;
    attributes.qkey = kQkey;
    EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attributes.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE), 0);
    attributes.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  void post_receive(uint64_t id) const {
    ibv_sge sge{memory_.address(2048), kHeader + kLength, region_->lkey};
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(receiver_.get(), &request, &bad), 0);
  }
  int send(uint64_t id, ibv_ah* handle, uint32_t qkey = kQkey, ibv_wr_opcode opcode = IBV_WR_SEND_WITH_IMM) const {
    ibv_sge sge{memory_.address(0), kLength, region_->lkey};
    ibv_send_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    request.imm_data = htonl(77);
    request.wr.ud = {.ah = handle, .remote_qpn = receiver_->qp_num, .remote_qkey = qkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(sender_.get(), &request, &bad);
  }
  void expect_delivered(uint64_t receive, uint64_t sent) {
    std::optional<ibv_wc> first = side_.poll(), second = side_.poll();
    ASSERT_TRUE(first && second);
    if (first->opcode != IBV_WC_RECV) std::swap(first, second);
    EXPECT_EQ(first->status, IBV_WC_SUCCESS);
    EXPECT_EQ(first->wr_id, receive);
    EXPECT_EQ(first->byte_len, kHeader + kLength);
    EXPECT_EQ(first->qp_num, receiver_->qp_num);
    EXPECT_EQ(first->src_qp, sender_->qp_num);
    EXPECT_EQ(first->wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM), unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
    EXPECT_EQ(first->imm_data, htonl(77));
    EXPECT_EQ(second->status, IBV_WC_SUCCESS);
    EXPECT_EQ(second->wr_id, sent);
    EXPECT_EQ(first_difference(memory_.bytes(2048 + kHeader, kLength), 1), std::nullopt);
    ibv_ah* const answer = ibv_create_ah_from_wc(
        side_.pd(), &*first, reinterpret_cast<ibv_grh*>(memory_.bytes(2048, kHeader).data()), kPort);
    ASSERT_TRUE(answer) << "what stands before the message says who it is from";
    EXPECT_EQ(ibv_destroy_ah(answer), 0);
  }

  Side side_;
  Memory memory_{MemoryKind::anonymous, 4096};
  MrHandle region_;
  ibv_ah* handle_ = nullptr;
  QpHandle sender_, receiver_;
};

TEST_F(Datagram, GoesWhereItsAddressHandleSays) {
  fill(memory_.bytes(0, kLength), 1);
  post_receive(1);
  ASSERT_EQ(send(2, handle_), 0);
  expect_delivered(1, 2);
}

TEST_F(Datagram, WithoutAnAddressIsRefused) {
  EXPECT_EQ(send(1, nullptr), EINVAL);
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(sender_.get());
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  ibv_wr_set_sge(builder, region_->lkey, memory_.address(0), kLength);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
}

TEST_F(Datagram, WithAnotherQkeyIsLost) {
  post_receive(1);
  ASSERT_EQ(send(2, handle_, kQkey + 1), 0);
  const std::optional<ibv_wc> sent = side_.poll();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->wr_id, 2u);
  EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
  EXPECT_FALSE(side_.poll(std::chrono::nanoseconds(0)));
  // A later one arrives, so that nothing was on its way.
  fill(memory_.bytes(0, kLength), 1);
  ASSERT_EQ(send(3, handle_), 0);
  expect_delivered(1, 3);
}

}  // namespace
}  // namespace verbatim::conformance
