#include "model/async_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

namespace verbatim::model {
namespace {

struct AsyncEventsTest : testing::Test {
  AsyncEvents events{EventCounter::create().take()};
  EventAcknowledgement account, other;
  int object = 0;

  AsyncEventsTest() { fcntl(events.fd(), F_SETFL, O_NONBLOCK); }
  bool readable() const {
    pollfd entry{events.fd(), POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }
  // As ibv_get_async_event does it.
  Result<AsyncEvent> get() {
    if (Status status = EventCounter::take(events.fd()); !status.ok()) return status;
    return events.next();
  }
};

TEST_F(AsyncEventsTest, ArriveInOrderAndMakeTheDescriptorReadable) {
  EXPECT_FALSE(readable());
  events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
  events.raise({AsyncEventType::gid_change, nullptr, 1, nullptr});
  ASSERT_TRUE(readable());
  const AsyncEvent first = get().take();
  EXPECT_EQ(first.type, AsyncEventType::queue_pair_fatal);
  EXPECT_EQ(first.element, &object);
  const AsyncEvent second = get().take();
  EXPECT_EQ(second.type, AsyncEventType::gid_change);
  EXPECT_EQ(second.port, 1);
  EXPECT_FALSE(readable());
  EXPECT_EQ(events.next().error(), EAGAIN);
}

TEST_F(AsyncEventsTest, RetiringForgetsTheEventsOfThatObjectAlone) {
  events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
  events.raise({AsyncEventType::completion_queue_error, &object, 0, &other});
  events.raise({AsyncEventType::queue_pair_access_error, &object, 0, &account});
  events.retire(account);
  EXPECT_EQ(get().value().type, AsyncEventType::completion_queue_error);
  EXPECT_FALSE(readable()) << "the descriptor announces an event that was withdrawn";
  EXPECT_EQ(events.next().error(), EAGAIN);
}

TEST_F(AsyncEventsTest, WhoTookTheAnnouncementOfAWithdrawnEventIsToldEagain) {
  events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
  ASSERT_TRUE(EventCounter::take(events.fd()).ok());
  events.retire(account);
  EXPECT_EQ(events.next().error(), EAGAIN);
}

TEST_F(AsyncEventsTest, RetiringWithNothingTakenReturnsAtOnce) {
  events.retire(account);
  events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
  const AsyncEvent event = get().take();
  events.acknowledge(event.account);
  events.retire(account);
  EXPECT_EQ(account.taken, 1u);
}

TEST_F(AsyncEventsTest, RetiringWaitsUntilEveryEventTakenIsAcknowledged) {
  for (int i = 0; i < 2; ++i) events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(get().ok());
  std::atomic<int> acknowledged{0};
  std::thread user([&] {
    for (int i = 0; i < 2; ++i) {
      for (int turn = 0; turn < 100; ++turn) std::this_thread::yield();
      acknowledged.fetch_add(1);
      events.acknowledge(&account);
    }
  });
  events.retire(account);
  EXPECT_EQ(acknowledged.load(), 2);
  user.join();
}

TEST_F(AsyncEventsTest, RaisersAndTakersMayWorkAtOnce) {
  constexpr int kEach = 2000, kRaisers = 3;
  std::vector<std::thread> raisers;
  for (int i = 0; i < kRaisers; ++i)
    raisers.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) events.raise({AsyncEventType::queue_pair_fatal, &object, 0, &account});
    });
  int taken = 0;
  while (taken < kEach * kRaisers) {
    const Result<AsyncEvent> event = get();
    if (!event.ok()) continue;
    events.acknowledge(event.value().account);
    ++taken;
  }
  for (std::thread& raiser : raisers) raiser.join();
  EXPECT_FALSE(readable());
  events.retire(account);
}

}  // namespace
}  // namespace verbatim::model
