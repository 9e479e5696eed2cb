// UD: who a message is for is said by the request, who it is from by the completion and by the 40 bytes before the
// message. What is lost is in unreliable_error_test.cc.
#include <arpa/inet.h>

#include "conformance/support/datagram_header.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kMessage = 512;
constexpr uint64_t kInto = 2048;  // where receives begin
constexpr uint64_t kAnswerInto = 4096;

class Datagram : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  Datagram() {
    set_up(GetParam(), IBV_WR_SEND_WITH_IMM, kLength, IBV_QPT_UD);
    connect();
  }

  void post_receive(uint64_t id, uint64_t offset) const {
    ibv_sge sge = local(offset, kDatagramHeader + kMessage);
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp_.get(), &request, &bad), 0);
  }
  static void expect_receive(const std::optional<ibv_wc>& completion, uint64_t id, uint32_t qpn, uint32_t sender,
                             uint32_t immediate) {
    ASSERT_TRUE(completion) << "receive " << id << " was not taken";
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, qpn, false}));
    EXPECT_EQ(completion->opcode, IBV_WC_RECV);
    EXPECT_EQ(completion->byte_len, kDatagramHeader + kMessage);
    EXPECT_EQ(completion->src_qp, sender);
    EXPECT_EQ(completion->wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
    EXPECT_EQ(completion->imm_data, htonl(immediate));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, Datagram, every_setting(), setting_name);

TEST_P(Datagram, IsAnsweredAsItsCompletionAndItsHeaderSay) {
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  post_receive(1, kInto);
  ASSERT_EQ(far_->post_receive(0, 11, {{kAnswerInto, kDatagramHeader + kMessage}}), 0);
  ASSERT_EQ(far_->post_send(0, {.id = 12,
                                .opcode = IBV_WR_SEND_WITH_IMM,
                                .piece = {0, kMessage},
                                .immediate = htonl(77),
                                .target = near_->address_of(qp_.get())}),
            0);
  std::optional<ibv_wc> question = near_->poll();
  expect_receive(question, 1, qp_->qp_num, far_address_.qpn, 77);
  EXPECT_EQ(first_difference(memory_->bytes(kInto + kDatagramHeader, kMessage), 1), std::nullopt);
  const std::optional<ibv_wc> sent = far_->poll();
  ASSERT_TRUE(sent);
  EXPECT_EQ(outcome_of(*sent), (Outcome{12, IBV_WC_SUCCESS, far_address_.qpn, false}));

  auto* const header = reinterpret_cast<ibv_grh*>(memory_->bytes(kInto, kDatagramHeader).data());
  const AhHandle back(ibv_create_ah_from_wc(near_->pd(), &*question, header, kPort));
  ASSERT_TRUE(back) << strerror(errno);
  Request answer = request(2, 0, kMessage);
  answer.immediate = htonl(78);
  answer.handle = back.get();
  answer.qpn = question->src_qp;
  answer.qkey = Wiring{}.qkey;
  EXPECT_EQ(post(answer), kAllPosted);
  EXPECT_EQ(next(), succeeded(2));
  expect_receive(far_->poll(), 11, far_address_.qpn, qp_->qp_num, 78);
  EXPECT_EQ(far_->first_difference(kAnswerInto + kDatagramHeader, kMessage, 2, 0), std::nullopt);
}

TEST_P(Datagram, GoesToEachWhomItsRequestNames) {
  fill(memory_->bytes(), 2);
  const Address other = far_->create_queue_pair(IBV_QPT_UD);
  ASSERT_EQ(far_->connect(1, {}, {}, IBV_QPT_UD), 0);
  const AhHandle handle = near_->create_address_handle(far_address_.gid);
  for (const uint32_t index : {0u, 1u})
    for (uint64_t i = 0; i < 4; ++i) {
      const uint64_t id = 10 * index + i;
      ASSERT_EQ(far_->post_receive(index, id, {{kInto + 1024 * (2 * i + index), kDatagramHeader + kMessage}}), 0);
    }
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 8; ++i) {
    Request each = request(i, i, kMessage);
    each.immediate = htonl(static_cast<uint32_t>(i));
    each.handle = handle.get();
    each.qpn = i % 2 ? other.qpn : far_address_.qpn;
    each.qkey = Wiring{}.qkey;
    requests.push_back(each);
  }
  EXPECT_EQ(post(requests), kAllPosted);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(next(), succeeded(i));
  for (uint32_t i = 0; i < 8; ++i) {
    expect_receive(far_->poll(), 10 * (i % 2) + i / 2, requests[i].qpn, qp_->qp_num, i);
    EXPECT_EQ(far_->first_difference(kInto + 1024 * i + kDatagramHeader, kMessage, 2, i), std::nullopt) << i;
  }
}

TEST(DatagramWithoutAnAddress, IsRefused) {
  const Side side;
  ibv_qp_init_attr_ex init{.send_cq = side.cq(), .recv_cq = side.cq(), .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_UD;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = side.pd();
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const QpHandle qp(ibv_create_qp_ex(side.context(), &init));
  ASSERT_TRUE(qp) << strerror(errno);
  ASSERT_EQ(connect(qp.get(), {}), 0);
  EXPECT_EQ(post(qp.get(), {{.id = 1, .opcode = IBV_WR_SEND}}), (Posted{EINVAL, 0}));
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  ibv_wr_set_sge_list(builder, 0, nullptr);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
