// XRC: a sending queue pair, wherever it lives, a receiving one that belongs to a domain, and shared receive queues of
// that domain, which the sender names one by one.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kLength = 8192;
constexpr uint32_t kMessage = 64;

// What one process has of it.
class ReceivingEnd : public testing::Test {
 protected:
  ReceivingEnd() : domain_(side_.open_xrc_domain()), receiver_(side_.create_xrc_receiver(domain_.get())) {}

  SrqHandle create_queue() const { return side_.create_shared_queue(domain_.get()); }
  ibv_qp_open_attr wanted() const {
    return {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            .qp_num = receiver_->qp_num,
            .xrcd = domain_.get(),
            .qp_context = nullptr,
            .qp_type = IBV_QPT_XRC_RECV};
  }

  Side side_;
  XrcDomainHandle domain_;
  QpHandle receiver_;
};

// ---- messages ----

class XrcMessage : public ReceivingEnd, public testing::WithParamInterface<Setting> {
 protected:
  XrcMessage()
      : memory_(GetParam() == Setting::other_process_file ? MemoryKind::file : MemoryKind::anonymous, kLength),
        region_(side_.register_memory(memory_)),
        far_(Responder::start(GetParam())) {
    far_->register_memory(kLength);
    sender_ = far_->create_queue_pair(IBV_QPT_XRC_SEND);
    EXPECT_EQ(connect(receiver_.get(), sender_), 0);
    EXPECT_EQ(far_->connect(0, side_.address_of(receiver_.get()), {}, IBV_QPT_XRC_SEND), 0);
    fill(memory_.bytes(), 2);
  }

  void post_receive(const SrqHandle& queue, uint64_t id, uint64_t offset) const {
    ibv_sge sge{memory_.address(offset), kMessage, region_->lkey};
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(queue.get(), &request, &bad), 0);
  }
  // Its bytes are those of the pattern `seed`.
  void send(uint64_t id, const SrqHandle& queue, uint64_t seed, ibv_wr_opcode opcode = IBV_WR_SEND) {
    far_->fill(0, kMessage, seed);
    Address target = side_.address_of(receiver_.get());
    EXPECT_EQ(ibv_get_srq_num(queue.get(), &target.shared_queue), 0);
    EXPECT_EQ(far_->post_send(0, {.id = id,
                                  .opcode = opcode,
                                  .piece = {0, kMessage},
                                  .remote_address = memory_.address(kLength / 2),
                                  .rkey = region_->rkey,
                                  .target = target}),
              0);
  }
  void expect_sent(uint64_t id) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "message " << id;
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, sender_.qpn, false}));
  }
  void expect_received(uint64_t id, uint64_t offset, uint64_t seed) const {
    const std::optional<ibv_wc> completion = side_.poll();
    ASSERT_TRUE(completion) << "receive " << id;
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, receiver_->qp_num, false}));
    EXPECT_EQ(completion->opcode, IBV_WC_RECV);
    EXPECT_EQ(completion->byte_len, kMessage);
    EXPECT_EQ(first_difference(memory_.bytes(offset, kMessage), seed), std::nullopt);
  }

  Memory memory_;
  MrHandle region_;
  std::unique_ptr<Responder> far_;
  Address sender_;
};
INSTANTIATE_TEST_SUITE_P(Each, XrcMessage, every_setting(), setting_name);

TEST_P(XrcMessage, TakesAReceiveOfTheQueueThatItNames) {
  const SrqHandle one = create_queue(), other = create_queue();
  post_receive(one, 1, 1024);
  post_receive(other, 2, 2048);
  send(3, other, 3);
  expect_received(2, 2048, 3);
  expect_sent(3);
  send(4, one, 4);
  expect_received(1, 1024, 4);
  expect_sent(4);
}

// IBTA A14: the PD of an XRC request is that of the queue which it names, also where it takes no receive.
TEST_P(XrcMessage, AWriteNamesTheQueueWhosePdItNeeds) {
  const SrqHandle queue = create_queue();
  send(1, queue, 3, IBV_WR_RDMA_WRITE);
  expect_sent(1);
  EXPECT_EQ(first_difference(memory_.bytes(kLength / 2, kMessage), 3), std::nullopt);
}

TEST_P(XrcMessage, IsReceivedAlthoughTheHandleThatCreatedTheReceiverIsGone) {
  const SrqHandle queue = create_queue();
  ibv_qp_open_attr attr = wanted();
  QpHandle opened(ibv_open_qp(side_.context(), &attr));
  ASSERT_TRUE(opened);
  post_receive(queue, 1, 1024);
  post_receive(queue, 2, 2048);
  send(3, queue, 3);
  expect_received(1, 1024, 3);
  expect_sent(3);
  receiver_ = std::move(opened);
  send(4, queue, 4);
  expect_received(2, 2048, 4);
  expect_sent(4);
}

// ---- objects ----

class Xrc : public ReceivingEnd {
 protected:
  Xrc() : sender_(side_.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_XRC_SEND)) {
    EXPECT_EQ(connect(receiver_.get(), side_.address_of(sender_.get())), 0);
    EXPECT_EQ(connect(sender_.get(), side_.address_of(receiver_.get())), 0);
  }

  QpHandle sender_;
};

TEST_F(Xrc, NeitherEndHasTheQueuesOfTheOther) {
  ibv_send_wr send_request{};
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(receiver_.get(), &send_request, &bad_send), EINVAL);
  for (ibv_qp* const qp : {receiver_.get(), sender_.get()}) {
    ibv_recv_wr receive_request{};
    ibv_recv_wr* bad_receive = nullptr;
    EXPECT_NE(ibv_post_recv(qp, &receive_request, &bad_receive), 0);
    EXPECT_EQ(bad_receive, &receive_request);
  }
}

TEST_F(Xrc, TheReceiverKeepsItsDomainOpen) { EXPECT_EQ(ibv_close_xrcd(domain_.get()), EBUSY); }

// ---- ibv_open_qp ----

class OpenedReceiver : public Xrc {
 protected:
  int opening_error(ibv_qp_open_attr attr) const {
    errno = 0;
    return QpHandle(ibv_open_qp(side_.context(), &attr)) ? 0 : errno;
  }
};

TEST_F(OpenedReceiver, IsTheSameQueuePair) {
  ibv_qp_open_attr attr = wanted();
  attr.comp_mask |= IBV_QP_OPEN_ATTR_CONTEXT;
  attr.qp_context = this;
  const QpHandle opened(ibv_open_qp(side_.context(), &attr));
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->qp_num, receiver_->qp_num);
  EXPECT_EQ(opened->qp_context, this);
  EXPECT_EQ(opened->state, IBV_QPS_RTS);
  ASSERT_EQ(to_state(opened.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(state_of(receiver_.get()), IBV_QPS_ERR);
}

TEST_F(OpenedReceiver, IsOfItsDomainAndType) {
  ibv_qp_open_attr attr = wanted();
  EXPECT_EQ(opening_error(attr), 0);
  attr.qp_num = sender_->qp_num;
  EXPECT_EQ(opening_error(attr), EINVAL);
  attr = wanted();
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(opening_error(attr), EINVAL);
  attr = wanted();
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
  EXPECT_EQ(opening_error(attr), EINVAL);
  attr = wanted();
  attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
  EXPECT_EQ(opening_error(attr), EOPNOTSUPP);

  const XrcDomainHandle other = side_.open_xrc_domain();
  attr = wanted();
  attr.xrcd = other.get();
  EXPECT_EQ(opening_error(attr), EINVAL);
}

TEST_F(Xrc, AReceiverNeedsADomainAndASenderNeedsAPd) {
  ibv_qp_init_attr_ex init{.send_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = IBV_QPT_XRC_RECV};
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = side_.pd();
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(side_.context(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.qp_type = IBV_QPT_XRC_SEND;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = domain_.get();
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(side_.context(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
