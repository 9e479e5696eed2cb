// XRC within one process: a sending queue pair, a receiving one that belongs to a domain, and shared receive queues of
// that domain, which the sender names one by one.
#include <fcntl.h>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kLength = 8192;

class Xrc : public testing::Test {
 protected:
  Xrc() : region_(side_.register_memory(memory_)) {
    ibv_xrcd_init_attr init{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    domain_ = ibv_open_xrcd(side_.context(), &init);
    EXPECT_TRUE(domain_);
    receiver_.reset(create(IBV_QPT_XRC_RECV));
    sender_.reset(create(IBV_QPT_XRC_SEND));
    EXPECT_TRUE(receiver_ && sender_) << strerror(errno);
    EXPECT_EQ(connect(receiver_.get(), side_.address_of(sender_.get())), 0);
    EXPECT_EQ(connect(sender_.get(), side_.address_of(receiver_.get())), 0);
  }
  ~Xrc() override {
    sender_.reset();
    receiver_.reset();
    EXPECT_EQ(ibv_close_xrcd(domain_), 0);
  }

  ibv_qp* create(ibv_qp_type type) const {
    ibv_qp_init_attr_ex init{.send_cq = side_.cq(), .cap = kOrdinaryCapabilities, .qp_type = type};
    init.comp_mask =
        type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = side_.pd();
    init.xrcd = domain_;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    return ibv_create_qp_ex(side_.context(), &init);
  }
  SrqHandle create_queue() const {
    ibv_srq_init_attr_ex init{
        .attr = {.max_wr = 8, .max_sge = 2},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = side_.pd(),
        .xrcd = domain_,
        .cq = side_.cq()};
    return SrqHandle(ibv_create_srq_ex(side_.context(), &init));
  }
  static uint32_t number_of(const SrqHandle& queue) {
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(queue.get(), &number), 0);
    return number;
  }
  void post_receive(const SrqHandle& queue, uint64_t id, uint64_t offset) const {
    ibv_sge sge{memory_.address(offset), 64, region_->lkey};
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(queue.get(), &request, &bad), 0);
  }
  int send(uint64_t id, uint32_t queue, ibv_wr_opcode opcode = IBV_WR_SEND) const {
    ibv_sge sge{memory_.address(0), 64, region_->lkey};
    ibv_send_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    request.wr.rdma = {.remote_addr = memory_.address(4096), .rkey = region_->rkey};
    request.qp_type.xrc.remote_srqn = queue;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(sender_.get(), &request, &bad);
  }
  // The next completions, the receive's first.
  void expect_delivered(uint64_t receive, uint64_t sent) const {
    std::optional<ibv_wc> first = side_.poll(), second = side_.poll();
    ASSERT_TRUE(first && second);
    if (first->opcode != IBV_WC_RECV) std::swap(first, second);
    EXPECT_EQ(first->status, IBV_WC_SUCCESS);
    EXPECT_EQ(first->wr_id, receive);
    EXPECT_EQ(first->byte_len, 64u);
    EXPECT_EQ(first->qp_num, receiver_->qp_num);
    EXPECT_EQ(second->status, IBV_WC_SUCCESS);
    EXPECT_EQ(second->wr_id, sent);
    EXPECT_EQ(second->qp_num, sender_->qp_num);
  }

  Side side_;
  Memory memory_{MemoryKind::anonymous, kLength};
  MrHandle region_;
  ibv_xrcd* domain_ = nullptr;
  QpHandle receiver_, sender_;
};

TEST_F(Xrc, AMessageTakesAReceiveOfTheQueueThatItNames) {
  const SrqHandle one = create_queue(), other = create_queue();
  fill(memory_.bytes(0, 64), 1);
  post_receive(one, 1, 1024);
  post_receive(other, 2, 2048);
  ASSERT_EQ(send(3, number_of(other)), 0);
  expect_delivered(2, 3);
  EXPECT_EQ(first_difference(memory_.bytes(2048, 64), 1), std::nullopt);
  ASSERT_EQ(send(4, number_of(one)), 0);
  expect_delivered(1, 4);
  EXPECT_EQ(first_difference(memory_.bytes(1024, 64), 1), std::nullopt);
}

// IBTA A14: the PD of an XRC request is that of the queue which it names, also where it takes no receive.
TEST_F(Xrc, AWriteNamesTheQueueWhosePdItNeeds) {
  const SrqHandle queue = create_queue();
  fill(memory_.bytes(0, 64), 2);
  ASSERT_EQ(send(1, number_of(queue), IBV_WR_RDMA_WRITE), 0);
  const std::optional<ibv_wc> completion = side_.poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
  EXPECT_EQ(first_difference(memory_.bytes(4096, 64), 2), std::nullopt);
}

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

TEST_F(Xrc, TheReceiverKeepsItsDomainOpen) { EXPECT_EQ(ibv_close_xrcd(domain_), EBUSY); }

// ---- ibv_open_qp ----

class OpenedReceiver : public Xrc {
 protected:
  ibv_qp_open_attr wanted() const {
    return {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            .qp_num = receiver_->qp_num,
            .xrcd = domain_,
            .qp_context = nullptr,
            .qp_type = IBV_QPT_XRC_RECV};
  }
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

TEST_F(OpenedReceiver, OutlivesTheHandleItWasCreatedWith) {
  const SrqHandle queue = create_queue();
  ibv_qp_open_attr attr = wanted();
  QpHandle opened(ibv_open_qp(side_.context(), &attr));
  ASSERT_TRUE(opened);
  receiver_.reset();
  receiver_.swap(opened);
  post_receive(queue, 1, 1024);
  ASSERT_EQ(send(2, number_of(queue)), 0);
  expect_delivered(1, 2);
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

  ibv_xrcd_init_attr init{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  ibv_xrcd* const other = ibv_open_xrcd(side_.context(), &init);
  attr = wanted();
  attr.xrcd = other;
  EXPECT_EQ(opening_error(attr), EINVAL);
  EXPECT_EQ(ibv_close_xrcd(other), 0);
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
  init.xrcd = domain_;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(side_.context(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
