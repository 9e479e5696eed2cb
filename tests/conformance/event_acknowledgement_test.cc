// What asynchronous events have named is destroyed when all that the program took are acknowledged, not before:
// ibv_get_async_event(3), for queue pairs, completion queues and shared receive queues.
#include <pthread.h>

#include <atomic>
#include <functional>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

enum class Named { queue_pair, completion_queue, shared_receive_queue };

class EventAcknowledgement : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    switch (GetParam()) {
      case Named::queue_pair:
        return drain();
      case Named::completion_queue:
        return overrun();
      case Named::shared_receive_queue:
        return reach_the_limit();
    }
  }

  // An event of the object under test; the others are gone when it is to be destroyed.
  ibv_async_event take() {
    const std::optional<ibv_async_event> event = side_.next_event(kSoon);
    EXPECT_TRUE(event);
    if (!event) return {};
    EXPECT_EQ(event->event_type, type_);
    return *event;
  }

  void drain() {
    ibv_qp* const qp = side_.create_queue_pair().release();
    ASSERT_EQ(connect(qp, side_.address_of(qp)), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    type_ = IBV_EVENT_SQ_DRAINED;
    destroy_ = [qp] { return ibv_destroy_qp(qp); };
    acknowledged_ = [qp] { return qp->events_completed; };
  }

  void overrun() {
    ibv_cq* const cq = ibv_create_cq(side_.context(), 1, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    ibv_qp_init_attr init{.send_cq = cq, .recv_cq = cq, .cap = kOrdinaryCapabilities};
    init.cap.max_recv_wr = static_cast<uint32_t>(cq->cqe) + 1;
    init.qp_type = IBV_QPT_RC;
    const QpHandle qp(ibv_create_qp(side_.pd(), &init));
    ASSERT_TRUE(qp);
    ASSERT_EQ(to_init(qp.get()), 0);
    ASSERT_EQ(to_state(qp.get(), IBV_QPS_ERR), 0);
    // Each is flushed at once, and the last finds no room.
    for (uint32_t i = 0; i < init.cap.max_recv_wr; ++i) {
      ibv_recv_wr receive{};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp.get(), &receive, &bad), 0);
    }
    type_ = IBV_EVENT_CQ_ERR;
    destroy_ = [cq] { return ibv_destroy_cq(cq); };
    acknowledged_ = [cq] { return cq->async_events_completed; };
    // Taken here, as the queue pair may have events of its own, which end with it.
    first_ = take();
  }

  void reach_the_limit() {
    ibv_srq* const srq = side_.create_shared_queue().release();
    const QpHandle qp = side_.create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_RC, srq);
    ASSERT_EQ(connect(qp.get(), side_.address_of(qp.get())), 0);
    for (int i = 0; i < 2; ++i) {
      ibv_recv_wr receive{};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_srq_recv(srq, &receive, &bad), 0);
    }
    ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
    ASSERT_EQ(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), 0);
    ASSERT_EQ(post(qp.get(), {{.opcode = IBV_WR_SEND}}), kAllPosted);
    ASSERT_TRUE(side_.poll());
    ASSERT_TRUE(side_.poll());
    type_ = IBV_EVENT_SRQ_LIMIT_REACHED;
    destroy_ = [srq] { return ibv_destroy_srq(srq); };
    acknowledged_ = [srq] { return srq->events_completed; };
  }

  const Side side_;
  ibv_event_type type_{};
  std::optional<ibv_async_event> first_;
  std::function<int()> destroy_;
  std::function<uint32_t()> acknowledged_;
};

std::string named(const testing::TestParamInfo<Named>& info) {
  constexpr const char* kNames[] = {"QueuePair", "CompletionQueue", "SharedReceiveQueue"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Each, EventAcknowledgement,
                         testing::Values(Named::queue_pair, Named::completion_queue, Named::shared_receive_queue),
                         named);

TEST_P(EventAcknowledgement, IsWhatDestructionWaitsFor) {
  ibv_async_event event = first_ ? *first_ : take();
  EXPECT_EQ(acknowledged_(), 0u);
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&] {
    for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
    acknowledged = true;
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(destroy_(), 0);
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

TEST_P(EventAcknowledgement, IsCountedInTheObject) {
  ibv_async_event event = first_ ? *first_ : take();
  ibv_ack_async_event(&event);
  EXPECT_EQ(acknowledged_(), 1u);
  EXPECT_EQ(destroy_(), 0);
}

TEST_P(EventAcknowledgement, IsWaitedForByAThreadThatIsBeingCancelled) {
  ibv_async_event event = first_ ? *first_ : take();
  std::atomic<bool> begun{false}, destroyed{false};
  std::thread destroyer([&] {
    begun = true;
    EXPECT_EQ(destroy_(), 0);
    destroyed = true;
    pthread_testcancel();
    ADD_FAILURE() << "nobody cancelled it";
  });
  while (!begun) std::this_thread::yield();
  pthread_cancel(destroyer.native_handle());
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace verbatim::conformance
