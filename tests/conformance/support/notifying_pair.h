// A pair whose requester has a completion queue of its own with a channel, and requests that complete within the call
// that posts them.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include "conformance/support/pair.h"

namespace verbatim::conformance {

using ChannelHandle = std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>;

class NotifyingPair : public PairTest {
 protected:
  static constexpr int kEntries = 16;

  void set_up(Setting setting) {
    PairTest::set_up(setting, IBV_WR_RDMA_WRITE);
    channel_.reset(ibv_create_comp_channel(near_->context()));
    ASSERT_TRUE(channel_) << strerror(errno);
    use(CqHandle(ibv_create_cq(near_->context(), kEntries, this, channel_.get(), 0)));
  }
  // Makes `cq` the requester's, and connects it. The first request waits for the introduction to the peer.
  void use(CqHandle cq) {
    ASSERT_TRUE(cq) << strerror(errno);
    qp_.reset();
    cq_ = std::move(cq);
    ibv_qp_init_attr init{.send_cq = cq_.get(), .recv_cq = cq_.get(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    qp_.reset(ibv_create_qp(near_->pd(), &init));
    ASSERT_TRUE(qp_) << strerror(errno);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    connect();
    complete(0);
    EXPECT_EQ(take(), 0u);
  }
  void TearDown() override {
    PairTest::TearDown();
    cq_.reset();
    channel_.reset();
  }

  void complete(uint64_t id) { EXPECT_EQ(post(request(id, 0, 8)), kAllPosted); }
  void fail(uint64_t id) {
    Request wrong = request(id, 0, 8);
    wrong.rkey ^= 1;
    EXPECT_EQ(post(wrong), kAllPosted);
  }
  // Of the first eight bytes of the requester's memory, or of none.
  void post_receive(ibv_qp* qp, uint64_t id, bool empty = false) const {
    ibv_sge sge = local(0, 8);
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = empty ? 0 : 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp, &request, &bad), 0);
  }
  // The id of the next completion, waiting for it; nothing when there is none.
  std::optional<uint64_t> take(std::chrono::nanoseconds patience = kSoon) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    ibv_wc completion{};
    do {
      if (ibv_poll_cq(cq_.get(), 1, &completion) == 1) return completion.wr_id;
    } while (std::chrono::steady_clock::now() < deadline);
    return std::nullopt;
  }
  void arm(int solicited_only = 0) const { EXPECT_EQ(ibv_req_notify_cq(cq_.get(), solicited_only), 0); }

  bool is_readable(std::chrono::milliseconds patience = {}) const {
    pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, static_cast<int>(patience.count())) == 1;
  }
  void make_non_blocking() const {
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  }
  // errno of getting an event, 0 when it is the queue's; not acknowledged.
  int event_error() const {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    errno = 0;
    if (ibv_get_cq_event(channel_.get(), &cq, &context) != 0) return errno;
    EXPECT_EQ(cq, cq_.get());
    EXPECT_EQ(context, this);
    return 0;
  }
  void expect_one_event() const {
    ASSERT_TRUE(is_readable(kSoon));
    EXPECT_EQ(event_error(), 0);
    ibv_ack_cq_events(cq_.get(), 1);
    EXPECT_FALSE(is_readable()) << "more than one event";
  }

  ChannelHandle channel_;
  CqHandle cq_;
};

class EachNotifyingPair : public NotifyingPair, public testing::WithParamInterface<Setting> {
 protected:
  EachNotifyingPair() { NotifyingPair::set_up(GetParam()); }
};

}  // namespace verbatim::conformance
