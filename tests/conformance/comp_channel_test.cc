// Completion events: ibv_create_comp_channel(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "conformance/support/notifying_pair.h"

namespace verbatim::conformance {
namespace {

// ---- arming and arrival, in three orders, for what arrives and each way to wait ----

// A request of one's own, which completes while it is posted, or a message of the peer. Nobody asks for that: the
// engine finds it.
enum class Arrival { own_request, message };
enum class Wait { blocking, poll, select, epoll_level, epoll_edge };
using Waiting = std::tuple<Setting, Arrival, Wait>;

class ArmAndArrival : public NotifyingPair, public testing::WithParamInterface<Waiting> {
 protected:
  ArmAndArrival() {
    NotifyingPair::set_up(std::get<0>(GetParam()));
    if (of_messages()) set_up_messages();
    if (wait() != Wait::blocking) make_non_blocking();
    if (wait() == Wait::epoll_level || wait() == Wait::epoll_edge) {
      epoll_ = epoll_create1(EPOLL_CLOEXEC);
      epoll_event event{.events = EPOLLIN, .data = {}};
      if (wait() == Wait::epoll_edge) event.events |= EPOLLET;
      EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, channel_->fd, &event), 0);
    }
  }
  ~ArmAndArrival() override { close(epoll_); }
  void TearDown() override {
    other_.reset();
    NotifyingPair::TearDown();
  }

  bool of_messages() const { return std::get<1>(GetParam()) == Arrival::message; }
  Wait wait() const { return std::get<2>(GetParam()); }

  // Lets it arrive, now or soon.
  void begin_arrival(uint64_t id) {
    if (!of_messages()) return complete(id);
    post_receive(qp_.get(), id);
    far_sends(0, 0);
  }
  // Lets it arrive, and returns when its completion is queued, which nobody here has polled or armed anything for.
  // A message may be acknowledged just before it is seen, but what one process sends to another arrives in order.
  void arrive(uint64_t id) {
    begin_arrival(id);
    if (of_messages()) far_sends_to_other();
  }

  // Whether the channel announces an event within that time.
  bool announced(std::chrono::milliseconds patience) const {
    const int milliseconds = static_cast<int>(patience.count());
    switch (wait()) {
      case Wait::blocking:
      case Wait::poll:
        return is_readable(patience);
      case Wait::select: {
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(channel_->fd, &readable);
        timeval time{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
        return select(channel_->fd + 1, &readable, nullptr, nullptr, &time) == 1;
      }
      case Wait::epoll_level:
      case Wait::epoll_edge:
        break;
    }
    epoll_event event{};
    return epoll_wait(epoll_, &event, 1, milliseconds) == 1;
  }
  void expect_event_now() const {
    // The blocking one blocks in the call itself.
    if (wait() != Wait::blocking) {
      ASSERT_TRUE(announced(kSoon));
    }
    EXPECT_EQ(event_error(), 0);
    ibv_ack_cq_events(cq_.get(), 1);
  }
  void expect_no_event() const {
    EXPECT_FALSE(announced({}));
    if (wait() != Wait::blocking) {
      EXPECT_EQ(event_error(), EAGAIN);
    }
  }

 private:
  void far_sends(uint32_t index, unsigned flags) {
    EXPECT_EQ(far_->post_send(index, {.opcode = IBV_WR_SEND, .piece = {0, 8}, .flags = flags}), 0);
  }
  void far_sends_to_other() {
    post_receive(other_.get(), 0);
    far_sends(1, IBV_SEND_SIGNALED);
    const std::optional<ibv_wc> acknowledged = far_->poll();
    ASSERT_TRUE(acknowledged);
    EXPECT_EQ(acknowledged->status, IBV_WC_SUCCESS);
  }
  // The first message waits for the introduction to this process, and nothing may overtake a later one.
  void set_up_messages() {
    other_ = near_->create_queue_pair();
    const Address far_other = far_->create_queue_pair();
    ASSERT_EQ(far_->connect(1, near_->address_of(other_.get())), 0);
    ASSERT_EQ(conformance::connect(other_.get(), far_other), 0);
    far_sends_to_other();
  }

  // Its completions go to a queue without a channel.
  QpHandle other_;
  int epoll_ = -1;
};

std::string waiting_name(const testing::TestParamInfo<Waiting>& info) {
  constexpr const char* kArrivals[] = {"OwnRequest", "Message"};
  constexpr const char* kWaits[] = {"Blocking", "Poll", "Select", "EpollLevel", "EpollEdge"};
  const auto [setting, arrival, wait] = info.param;
  return name(setting) + kArrivals[static_cast<int>(arrival)] + kWaits[static_cast<int>(wait)];
}
INSTANTIATE_TEST_SUITE_P(Each, ArmAndArrival,
                         testing::Combine(direct_settings(), testing::Values(Arrival::own_request, Arrival::message),
                                          testing::Values(Wait::blocking, Wait::poll, Wait::select, Wait::epoll_level,
                                                          Wait::epoll_edge)),
                         waiting_name);

TEST_P(ArmAndArrival, NoEventIsOwedForWhatWasQueuedBefore) {
  arrive(1);
  arm();
  expect_no_event();
  EXPECT_EQ(take({}), 1u);
  expect_no_event();
  arrive(2);
  expect_event_now();
  EXPECT_EQ(take({}), 2u);
  expect_no_event();
}

TEST_P(ArmAndArrival, BetweenArmingAndWaitingNothingIsLost) {
  arm();
  EXPECT_EQ(take({}), std::nullopt);
  arrive(1);
  expect_event_now();
  EXPECT_EQ(take({}), 1u);
  expect_no_event();
}

TEST_P(ArmAndArrival, WhoWaitsIsWoken) {
  for (uint64_t id = 1; id <= 20; ++id) {
    arm();
    std::atomic<bool> waits{false};
    std::thread waiter([&] {
      waits = true;
      expect_event_now();
    });
    while (!waits) std::this_thread::yield();
    begin_arrival(id);
    waiter.join();
    EXPECT_EQ(take({}), id);
  }
  expect_no_event();
}

TEST_P(ArmAndArrival, OneArmingIsOneEvent) {
  arm();
  arm();
  arrive(1);
  arrive(2);
  expect_event_now();
  expect_no_event();
  arm();
  arrive(3);
  arm();
  arrive(4);
  expect_event_now();
  // Both came before an edge was seen, so there may be no second edge.
  ASSERT_TRUE(is_readable(kSoon));
  EXPECT_EQ(event_error(), 0);
  ibv_ack_cq_events(cq_.get(), 1);
  expect_no_event();
}

// ---- what arming asks for ----

using CompletionEvent = EachNotifyingPair;
INSTANTIATE_TEST_SUITE_P(Each, CompletionEvent, direct_settings(), setting_name);

TEST_P(CompletionEvent, SolicitedOnlyIsNotForASuccessfulSend) {
  arm(1);
  complete(1);
  EXPECT_FALSE(is_readable());
  // Nor does it take the arming away from what comes later.
  fail(2);
  expect_one_event();
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(take(), 2u);
}

TEST_P(CompletionEvent, ArmingForEveryCompletionWidensAndSolicitedDoesNotNarrow) {
  arm(1), arm(0);
  complete(1);
  expect_one_event();
  arm(0), arm(1);
  complete(2);
  expect_one_event();
}

TEST_P(CompletionEvent, ComesForWorkThatIsLongerThanThePosting) {
  // Slices of it are left when the call returns, and nobody polls.
  region_.reset();
  memory_.emplace(MemoryKind::anonymous, 8 << 20);
  region_ = near_->register_memory(*memory_);
  far_->deregister_memory();
  remote_ = far_->register_memory(8 << 20);
  arm();
  EXPECT_EQ(post(request(1, 0, 8 << 20)), kAllPosted);
  expect_one_event();
  EXPECT_EQ(take({}), 1u);
}

TEST_P(CompletionEvent, ComesWhenAPeerGetsReadyWhileTheProgramSleeps) {
  ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  arm();
  complete(1);
  EXPECT_FALSE(is_readable(std::chrono::milliseconds(20)));
  ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get())), 0);
  expect_one_event();
  EXPECT_EQ(take({}), 1u);
}

TEST_P(CompletionEvent, ArmingWithoutAChannelDoesNothing) {
  use(CqHandle(ibv_create_cq(near_->context(), kEntries, nullptr, nullptr, 0)));
  arm();
  complete(1);
  EXPECT_EQ(take(), 1u);
  EXPECT_FALSE(is_readable());
}

// ---- channels and queues as objects ----

TEST_P(CompletionEvent, AChannelWithQueuesIsBusy) {
  EXPECT_EQ(channel_->context, near_->context());
  EXPECT_EQ(cq_->channel, channel_.get());
  EXPECT_EQ(ibv_destroy_comp_channel(channel_.get()), EBUSY);
  qp_.reset();
  cq_.reset();
  EXPECT_EQ(ibv_destroy_comp_channel(channel_.release()), 0);
}

TEST_P(CompletionEvent, AQueueWithQueuePairsIsBusy) {
  EXPECT_EQ(ibv_destroy_cq(cq_.get()), EBUSY);
  arm();
  complete(1);
  expect_one_event();
}

TEST_P(CompletionEvent, OfADestroyedQueueVanishes) {
  arm();
  complete(1);
  EXPECT_TRUE(is_readable());
  qp_.reset();
  cq_.reset();
  EXPECT_FALSE(is_readable());
  make_non_blocking();
  EXPECT_EQ(event_error(), EAGAIN);
}

TEST_P(CompletionEvent, DestructionOfTheQueueWaitsForAcknowledgements) {
  for (uint64_t id = 1; id <= 3; ++id) {
    arm();
    complete(id);
    ASSERT_EQ(event_error(), 0);
  }
  qp_.reset();
  ibv_ack_cq_events(cq_.get(), 1);
  EXPECT_EQ(cq_->comp_events_completed, 1u);
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&, cq = cq_.get()] {
    for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
    acknowledged = true;
    ibv_ack_cq_events(cq, 2);
  });
  cq_.reset();
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

TEST_P(CompletionEvent, ClosingTheDeviceWaitsForNobody) {
  ibv_context* const closing = ibv_open_device(near_->context()->device);
  ASSERT_NE(closing, nullptr);
  ibv_comp_channel* const channel = ibv_create_comp_channel(closing);
  ASSERT_NE(channel, nullptr);
  ibv_cq* const cq = ibv_create_cq(closing, 4, nullptr, channel, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr init{.send_cq = cq, .recv_cq = cq, .cap = kOrdinaryCapabilities};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(ibv_alloc_pd(closing), &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &from, &context), 0);
  EXPECT_EQ(from, cq);
  // With all that was made in it, and an event that was never acknowledged.
  EXPECT_EQ(ibv_close_device(closing), 0);
}

TEST_P(CompletionEvent, TheDescriptorMayBeDuplicatedAndReplaced) {
  const int duplicate = dup(channel_->fd);
  ASSERT_GE(duplicate, 0);
  arm();
  complete(1);
  pollfd readable{.fd = duplicate, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 1);
  const int original = channel_->fd;
  channel_->fd = duplicate;
  expect_one_event();
  channel_->fd = original;
  EXPECT_FALSE(is_readable());
  close(duplicate);
}

TEST_P(CompletionEvent, ComesFromManyQueuesOfOneChannelEachWithItsOwnContext) {
  int others[2] = {};
  CqHandle queues[2];
  for (int i = 0; i < 2; ++i) queues[i].reset(ibv_create_cq(near_->context(), kEntries, &others[i], channel_.get(), 0));
  EXPECT_EQ(channel_->refcnt, 3);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(queues[i]);
    ibv_qp_init_attr init{.send_cq = queues[i].get(), .recv_cq = queues[i].get(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    const QpHandle qp(ibv_create_qp(near_->pd(), &init));
    ASSERT_EQ(to_init(qp.get()), 0);
    ASSERT_EQ(to_state(qp.get(), IBV_QPS_ERR), 0);
    ASSERT_EQ(ibv_req_notify_cq(queues[i].get(), 0), 0);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp.get(), &receive, &bad), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
    EXPECT_EQ(cq, queues[i].get());
    EXPECT_EQ(context, &others[i]);
    ibv_ack_cq_events(cq, 1);
  }
}

TEST_P(CompletionEvent, VectorsAndChannelsOfOthersAreRefused) {
  const auto error = [&](ibv_comp_channel* channel, int vector) {
    errno = 0;
    const CqHandle cq(ibv_create_cq(near_->context(), 4, nullptr, channel, vector));
    return cq ? 0 : errno;
  };
  EXPECT_EQ(error(channel_.get(), -1), EINVAL);
  EXPECT_EQ(error(channel_.get(), near_->context()->num_comp_vectors), EINVAL);
  EXPECT_EQ(error(channel_.get(), near_->context()->num_comp_vectors - 1), 0);
  const Side other;
  const ChannelHandle foreign(ibv_create_comp_channel(other.context()));
  EXPECT_EQ(error(foreign.get(), 0), EBADF);
  EXPECT_EQ(channel_->refcnt, 1) << "a CQ that was not made is counted";
}

// ---- pthread_cancel ----

// Runs `call` on a thread that is cancelled before it begins or while it blocks, and expects it to end there.
template <class Call>
void expect_cancelled(bool before, Call call) {
  std::atomic<bool> returned{false}, begun{false};
  std::thread thread([&] {
    if (before) pthread_cancel(pthread_self());
    begun = true;
    call();
    returned = true;
  });
  while (!begun) std::this_thread::yield();
  if (!before) {
    for (int turn = 0; turn < 200; ++turn) std::this_thread::yield();
    pthread_cancel(thread.native_handle());
  }
  thread.join();
  EXPECT_FALSE(returned);
}

TEST_P(CompletionEvent, AThreadIsCancelledWhileItWaitsForOne) {
  for (const bool before : {false, true})
    expect_cancelled(before, [&] {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ibv_get_cq_event(channel_.get(), &cq, &context);
    });
  // It took nothing with it.
  arm();
  complete(1);
  expect_one_event();
}

TEST_P(CompletionEvent, AThreadIsCancelledWhileItWaitsForAnAsynchronousOne) {
  for (const bool before : {false, true})
    expect_cancelled(before, [&] {
      ibv_async_event event{};
      ibv_get_async_event(near_->context(), &event);
    });
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  std::optional<ibv_async_event> event = near_->next_event(kSoon);
  ASSERT_TRUE(event);
  ibv_ack_async_event(&*event);
  EXPECT_EQ(qp_->events_completed, 1u);
}

TEST_P(CompletionEvent, PostingAndPollingAreNoCancellationPoints) {
  arm();
  std::atomic<int> steps{0};
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    complete(1);
    ++steps;
    ibv_wc completion{};
    EXPECT_EQ(ibv_poll_cq(cq_.get(), 1, &completion), 1);
    arm();
    ++steps;
    pthread_testcancel();
    ++steps;
  });
  thread.join();
  EXPECT_EQ(steps, 2);
  expect_one_event();
}

TEST_P(CompletionEvent, DestructionThatWaitsIsFinishedBeforeTheThreadIsCancelled) {
  arm();
  complete(1);
  ASSERT_EQ(event_error(), 0);
  qp_.reset();
  ibv_cq* const cq = cq_.release();
  std::atomic<bool> begun{false}, destroyed{false};
  std::thread destroyer([&] {
    begun = true;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    destroyed = true;
  });
  while (!begun) std::this_thread::yield();
  pthread_cancel(destroyer.native_handle());
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(channel_->refcnt, 0);
}

}  // namespace
}  // namespace verbatim::conformance
