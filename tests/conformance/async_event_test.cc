// ibv_get_async_event(3): a real descriptor, and every event exactly once.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

bool is_readable(const ibv_context* context, int milliseconds = 0) {
  pollfd readable{.fd = context->async_fd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, milliseconds) == 1;
}

void make_non_blocking(const ibv_context* context) {
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK), 0);
}

class AsyncEvent : public EachSetting {
 protected:
  // An event of the requester's queue pair: it drains. Leaves it in SQD.
  void drain() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  }
  int next_error(ibv_async_event& event) const {
    errno = 0;
    return ibv_get_async_event(near_->context(), &event) == 0 ? 0 : errno;
  }
};
INSTANTIATE_TEST_SUITE_P(Each, AsyncEvent, every_setting(), setting_name);

TEST_P(AsyncEvent, NonBlockingDescriptorSaysWhenThereIsNone) {
  make_non_blocking(near_->context());
  ibv_async_event event{};
  EXPECT_FALSE(is_readable(near_->context()));
  EXPECT_EQ(next_error(event), EAGAIN);
}

TEST_P(AsyncEvent, DescriptorIsReadableJustWhileThereAreEvents) {
  connect();
  make_non_blocking(near_->context());
  EXPECT_FALSE(is_readable(near_->context()));
  for (int i = 0; i < 3; ++i) {
    drain();
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  }
  ibv_async_event event{};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_readable(near_->context(), 20'000));
    ASSERT_EQ(next_error(event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(event.element.qp, qp_.get());
    ibv_ack_async_event(&event);
  }
  EXPECT_FALSE(is_readable(near_->context()));
  EXPECT_EQ(next_error(event), EAGAIN);
}

TEST_P(AsyncEvent, BlockingCallWaitsForOne) {
  connect();
  ibv_async_event event{};
  std::thread waiter([&] {
    EXPECT_EQ(next_error(event), 0);
    ibv_ack_async_event(&event);
  });
  drain();
  waiter.join();
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
}

TEST_P(AsyncEvent, GoesToOneOfManyWaiters) {
  connect();
  constexpr int kEvents = 8;
  std::atomic<int> seen{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < kEvents; ++i)
    waiters.emplace_back([&] {
      ibv_async_event event{};
      EXPECT_EQ(ibv_get_async_event(near_->context(), &event), 0);
      EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
      ibv_ack_async_event(&event);
      ++seen;
    });
  for (int i = 0; i < kEvents; ++i) {
    drain();
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(seen, kEvents);
  EXPECT_FALSE(is_readable(near_->context()));
}

TEST_P(AsyncEvent, DestructionWaitsForTheAcknowledgement) {
  connect();
  drain();
  std::optional<ibv_async_event> event = near_->next_event(kSoon);
  ASSERT_TRUE(event);
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    acknowledged = true;
    ibv_ack_async_event(&*event);
  });
  qp_.reset();
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

TEST_P(AsyncEvent, DestructionForgetsWhatNobodyTook) {
  connect();
  drain();
  EXPECT_TRUE(is_readable(near_->context(), 20'000));
  qp_.reset();
  EXPECT_FALSE(is_readable(near_->context()));
  make_non_blocking(near_->context());
  ibv_async_event event{};
  EXPECT_EQ(next_error(event), EAGAIN);
}

TEST_P(AsyncEvent, FullCompletionQueueIsAnErrorOfItsOwn) {
  const CqHandle small(ibv_create_cq(near_->context(), 2, nullptr, nullptr, 0));
  ASSERT_TRUE(small);
  const uint32_t room = static_cast<uint32_t>(small->cqe);
  ibv_qp_init_attr init{.send_cq = small.get(), .recv_cq = small.get(), .cap = kOrdinaryCapabilities};
  init.cap.max_send_wr = room + 1;
  init.qp_type = IBV_QPT_RC;
  qp_.reset(ibv_create_qp(near_->pd(), &init));
  ASSERT_TRUE(qp_);
  connect();
  for (uint32_t i = 0; i <= room; ++i) EXPECT_EQ(post(request(i, 0, 8)), kAllPosted);
  std::optional<ibv_async_event> event = near_->next_event(kSoon);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, small.get());
  ibv_ack_async_event(&*event);
  qp_.reset();
}

}  // namespace
}  // namespace verbatim::conformance
