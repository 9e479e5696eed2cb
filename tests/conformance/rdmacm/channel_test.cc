// An event channel is a descriptor of the kernel's: it can be waited for, made non-blocking, duplicated and replaced;
// and rdma_get_cm_event(3) waits as a read of it would.
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Channel : public TwoEnds {
 protected:
  // An event: the address of an identifier is resolved.
  void cause_event(rdma_cm_id* id) { ASSERT_EQ(resolve_to(id, address_), 0); }
  int get_error() {
    rdma_cm_event* event = nullptr;
    const int error = error_of(rdma_get_cm_event(client_.get(), &event));
    if (error == 0) rdma_ack_cm_event(event);
    return error;
  }

  const CmIdHandle id_ = create_id(client_.get());
};

TEST_F(Channel, IsReadableWhileThereAreEvents) {
  const CmIdHandle other = create_id(client_.get());
  EXPECT_FALSE(client_.is_readable());
  cause_event(id_.get());
  cause_event(other.get());
  EXPECT_TRUE(client_.is_readable(kSoon));
  EXPECT_TRUE(client_.is_readable()) << "looking does not take it";
  ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
  EXPECT_TRUE(client_.is_readable(kSoon));
  ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
  EXPECT_FALSE(client_.is_readable());
}

TEST_F(Channel, NeedsNoAcknowledgementToBeSilent) {
  cause_event(id_.get());
  const CmEventHandle event = client_.fetch();
  ASSERT_TRUE(event);
  EXPECT_FALSE(client_.is_readable());
}

TEST_F(Channel, CanBeSelected) {
  cause_event(id_.get());
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(client_.fd(), &readable);
  timeval patience{.tv_sec = kSoon.count(), .tv_usec = 0};
  EXPECT_EQ(select(client_.fd() + 1, &readable, nullptr, nullptr, &patience), 1);
  EXPECT_EQ(get_error(), 0);
}

TEST_F(Channel, CanBeInAnEpollSet) {
  for (const uint32_t trigger : {0u, static_cast<uint32_t>(EPOLLET)}) {
    const int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_event wanted{.events = EPOLLIN | trigger, .data = {}}, found{};
    ASSERT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, client_.fd(), &wanted), 0);
    EXPECT_EQ(epoll_wait(set, &found, 1, 0), 0);
    const CmIdHandle id = create_id(client_.get());
    for (int round = 0; round < 3; ++round) {
      if (round == 0)
        cause_event(id.get());
      else if (round == 1)
        ASSERT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), 0);
      else
        ASSERT_EQ(error_of(rdma_connect(id.get(), std::array{parameters_of_foreign_queue_pair()}.data())), 0);
      ASSERT_EQ(epoll_wait(set, &found, 1, std::chrono::milliseconds(kSoon).count()), 1) << round;
      EXPECT_EQ(found.events, static_cast<uint32_t>(EPOLLIN));
      EXPECT_EQ(get_error(), 0);
      EXPECT_EQ(epoll_wait(set, &found, 1, 0), 0) << round;
    }
    close(set);
  }
}

TEST_F(Channel, ThatDoesNotBlockSaysSo) {
  client_.make_non_blocking();
  EXPECT_EQ(get_error(), EAGAIN);
  cause_event(id_.get());
  ASSERT_TRUE(client_.is_readable(kSoon));
  EXPECT_EQ(get_error(), 0);
  EXPECT_EQ(get_error(), EAGAIN);
  ASSERT_EQ(fcntl(client_.fd(), F_SETFL, 0), 0);
  std::thread causer([&] { ASSERT_EQ(error_of(rdma_resolve_route(id_.get(), kPatience)), 0); });
  EXPECT_EQ(get_error(), 0) << "it blocks again";
  causer.join();
}

TEST_F(Channel, MayBeReplacedByACopyOfItself) {
  const int original = client_.fd();
  const int copy = dup(original);
  ASSERT_GE(copy, 0);
  client_.get()->fd = copy;
  close(original);
  cause_event(id_.get());
  EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
  // As libiscsi does: the copy takes the place of the old number.
  ASSERT_EQ(dup2(copy, original), original);
  client_.get()->fd = original;
  close(copy);
  EXPECT_EQ(error_of(rdma_resolve_route(id_.get(), kPatience)), 0);
  EXPECT_EQ(client_.take_name(), "ROUTE_RESOLVED");
}

TEST_F(Channel, IsClosedOnExec) { EXPECT_EQ(fcntl(client_.fd(), F_GETFD), FD_CLOEXEC); }

TEST_F(Channel, WakesWhoWaits) {
  std::atomic<bool> begun{false};
  std::thread waiter([&] {
    begun = true;
    EXPECT_EQ(get_error(), 0);
  });
  while (!begun) std::this_thread::yield();
  cause_event(id_.get());
  waiter.join();
}

TEST_F(Channel, GivesEachEventToOneOfThoseWhoWait) {
  constexpr int kThreads = 4;
  std::vector<CmIdHandle> ids;
  for (int i = 0; i < kThreads; ++i) ids.push_back(create_id(client_.get()));
  std::vector<rdma_cm_id*> told(kThreads);
  std::vector<std::thread> waiters;
  for (rdma_cm_id*& mine : told)
    waiters.emplace_back([&] {
      rdma_cm_event* event = nullptr;
      ASSERT_EQ(error_of(rdma_get_cm_event(client_.get(), &event)), 0);
      mine = event->id;
      rdma_ack_cm_event(event);
    });
  for (const CmIdHandle& id : ids) cause_event(id.get());
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(std::set(told.begin(), told.end()).size(), static_cast<size_t>(kThreads));
  EXPECT_FALSE(client_.is_readable());
}

// rping cancels the thread that waits for events (pthread_cancel(3)).
TEST_F(Channel, AThreadThatIsCancelledWhileItWaitsTakesNothingWithIt) {
  for (const bool before : {false, true}) {
    std::atomic<bool> begun{false}, returned{false};
    std::thread waiter([&] {
      if (before) pthread_cancel(pthread_self());
      begun = true;
      rdma_cm_event* event = nullptr;
      rdma_get_cm_event(client_.get(), &event);
      returned = true;
    });
    while (!begun) std::this_thread::yield();
    if (!before) {
      for (int turn = 0; turn < 200; ++turn) std::this_thread::yield();
      pthread_cancel(waiter.native_handle());
    }
    waiter.join();
    EXPECT_FALSE(returned);
  }
  cause_event(id_.get());
  EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
}

TEST_F(Channel, ASignalEndsTheWaitUnlessItsHandlerRestartsCalls) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  for (const bool restarts : {false, true}) {
    action.sa_flags = restarts ? SA_RESTART : 0;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    const CmIdHandle id = create_id(client_.get());
    std::atomic<bool> over{false};
    int error = -1;
    std::thread waiter([&] {
      error = get_error();
      over = true;
    });
    // It may come before the wait: until it has come amid it, again.
    for (int i = 0; i < (restarts ? 100 : 1'000'000) && !over; ++i) {
      pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
    if (restarts) cause_event(id.get());
    waiter.join();
    EXPECT_EQ(error, restarts ? 0 : EINTR);
  }
}

TEST_F(Channel, KeepsTheOrderOfEvents) {
  constexpr int kMany = 50;
  std::vector<CmIdHandle> ids;
  for (int i = 0; i < kMany; ++i) {
    ids.push_back(create_id(client_.get()));
    cause_event(ids.back().get());
  }
  for (const CmIdHandle& id : ids) {
    const std::optional<CmEvent> event = client_.take();
    ASSERT_EQ(name(event), "ADDR_RESOLVED");
    EXPECT_EQ(event->id, id.get());
  }
}

TEST_F(Channel, OfNowhereIsRefused) {
  EXPECT_EQ(error_of(rdma_get_cm_event(client_.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_ack_cm_event(nullptr)), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
