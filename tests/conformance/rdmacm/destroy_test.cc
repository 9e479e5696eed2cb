// rdma_destroy_id(3) and what it means for the identifier's events: it waits for those that were given out, and takes
// back the others. rdma_destroy_event_channel(3).
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "conformance/rdmacm/support/two_ends.h"
#include "support/cancelled_thread.h"
#include "support/sleeping_thread.h"

namespace verbatim::conformance {
namespace {

class Destruction : public TwoEnds {
 protected:
  // Destroys it in a thread, and expects that not to be over before `acknowledge` has begun.
  static void expect_waits(CmIdHandle id, const std::function<void()>& acknowledge) {
    std::atomic<bool> acknowledging{false}, begun{false};
    std::thread destroyer([&] {
      begun = true;
      id.reset();
      EXPECT_TRUE(acknowledging) << "it did not wait";
    });
    while (!begun) std::this_thread::yield();
    for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
    acknowledging = true;
    acknowledge();
    destroyer.join();
  }
};

TEST_F(Destruction, WaitsForTheEventsThatWereGivenOut) {
  CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  CmEventHandle first = client_.fetch();
  ASSERT_TRUE(first);
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), 0);
  CmEventHandle second = client_.fetch();
  ASSERT_TRUE(second);
  first.reset();
  expect_waits(std::move(id), [&] { second.reset(); });
}

TEST_F(Destruction, OfAListenerWaitsForItsRequestsButNotForTheirIdentifiers) {
  listen();
  active_ = resolved();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  CmEventHandle request = server_.fetch();
  ASSERT_TRUE(request);
  passive_.reset(request->id);
  expect_waits(std::move(listener_), [&] { request.reset(); });
  ASSERT_EQ(accept(), 0);
  establish();
}

TEST_F(Destruction, OfARequestsIdentifierDoesNotWaitForTheListenersEvent) {
  listen();
  active_ = resolved();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  const CmEventHandle request = server_.fetch();
  ASSERT_TRUE(request);
  passive_.reset(request->id);
  passive_.reset();
  EXPECT_EQ(client_.take_name(), "REJECTED 28");
}

TEST_F(Destruction, TakesBackTheEventsThatWait) {
  CmIdHandle id = create_id(client_.get()), other = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_TRUE(client_.is_readable(kSoon));
  ASSERT_EQ(resolve_to(other.get(), address_), 0);
  id.reset();
  const std::optional<CmEvent> left = client_.take();
  EXPECT_EQ(name(left), "ADDR_RESOLVED");
  EXPECT_EQ(left->id, other.get());
  expect_quiet();
}

TEST_F(Destruction, WithTheLastEventsOfAChannelMakesItSilent) {
  CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_TRUE(client_.is_readable(kSoon));
  id.reset();
  EXPECT_FALSE(client_.is_readable());
  client_.make_non_blocking();
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(error_of(rdma_get_cm_event(client_.get(), &event)), EAGAIN);
}

TEST_F(Destruction, AtEachStepOfAConnectionIsQuick) {
  const std::vector<std::function<void()>> steps = {
      [&] { ASSERT_EQ(resolve_to(active_.get(), address_), 0); },
      [&] { ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED"); },
      [&] { ASSERT_EQ(error_of(rdma_resolve_route(active_.get(), kPatience)), 0); },
      [&] { ASSERT_EQ(client_.take_name(), "ROUTE_RESOLVED"); },
      [&] { create_queue_pair(active_.get()); },
      [&] {
        rdma_conn_param parameters = plain_parameters();
        ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
      },
      [&] { take_request(); },
      [&] {
        create_queue_pair(passive_.get());
        ASSERT_EQ(accept(), 0);
      },
      [&] { ASSERT_EQ(client_.take_name(), "ESTABLISHED"); },
      [&] { ASSERT_EQ(server_.take_name(), "ESTABLISHED"); },
      [&] { ASSERT_EQ(error_of(rdma_disconnect(active_.get())), 0); },
      [&] { ASSERT_EQ(server_.take_name(), "DISCONNECTED"); },
  };
  for (const bool of_client : {true, false})
    for (size_t last = 0; last < steps.size(); ++last) {
      SCOPED_TRACE(last);
      listen();
      active_ = create_id(client_.get());
      for (size_t step = 0; step <= last; ++step) ASSERT_NO_FATAL_FAILURE(steps[step]());
      (of_client ? active_ : passive_).reset();
      (of_client ? passive_ : active_).reset();
      // With it goes a request that is on its way.
      listener_.reset();
    }
}

TEST_F(Destruction, ByAnotherThreadOfWhatAThreadWaitsForLeavesTheChannelInUse) {
  std::atomic<bool> begun{false};
  rdma_cm_id* last = nullptr;
  std::thread waiter([&] {
    begun = true;
    // Blocks in the call itself.
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(error_of(rdma_get_cm_event(client_.get(), &event)), 0);
    EXPECT_EQ(event->id, last);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
    rdma_ack_cm_event(event);
  });
  while (!begun) std::this_thread::yield();
  // None of these has an event when it goes.
  for (int i = 0; i < 10; ++i) create_id(client_.get()).reset();
  const CmIdHandle id = create_id(client_.get());
  last = id.get();
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  waiter.join();
}

// One thread takes and acknowledges, as servers do, another destroys: an identifier that is gone has no events.
TEST_F(Destruction, AmidEventsThatAThreadTakesIsFollowedByNone) {
  client_.make_non_blocking();
  std::atomic<rdma_cm_id*> destroyed{nullptr};
  std::atomic<bool> over{false};
  std::thread taker([&] {
    while (!over) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(client_.get(), &event) != 0) {
        EXPECT_EQ(errno, EAGAIN);
        std::this_thread::yield();
        continue;
      }
      EXPECT_NE(event->id, destroyed.load()) << name(CmEvent(*event));
      rdma_ack_cm_event(event);
    }
  });
  for (int i = 0; i < 200; ++i) {
    CmIdHandle id = create_id(client_.get());
    destroyed = nullptr;
    EXPECT_EQ(resolve_to(id.get(), address_), 0);
    rdma_cm_id* const which = id.get();
    id.reset();
    destroyed = which;
  }
  over = true;
  taker.join();
}

TEST_F(Destruction, IsNoCancellationPoint) {
  CmIdHandle id = create_id(client_.get());
  EXPECT_TRUE(testing_support::is_not_cancelled_in([&] { id.reset(); }));
}

TEST_F(Destruction, ThatWaitsIsFinishedBeforeTheThreadIsCancelled) {
  CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  CmEventHandle event = client_.fetch();
  ASSERT_TRUE(event);
  std::atomic<pid_t> destroying{0};
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    destroying = gettid();
    id.reset();
    destroyed = true;
  });
  while (!testing_support::is_asleep(destroying)) std::this_thread::yield();
  pthread_cancel(destroyer.native_handle());
  event.reset();
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(Destruction, OfAnIdentifierLeavesItsQueuePairToTheProgram) {
  // A program destroys the queue pair first (rdma_destroy_id(3)); one that was made by ibv_create_qp(3) is its own.
  active_ = resolved();
  ibv_cq* const cq = ibv_create_cq(active_->verbs, 4, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  attributes.send_cq = attributes.recv_cq = cq;
  const CqHandle cq_handle(cq);
  const QpHandle qp(ibv_create_qp(active_->pd, &attributes));
  ASSERT_TRUE(qp);
  active_.reset();
  EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_RESET);
}

}  // namespace
}  // namespace verbatim::conformance
