#include "base/event_counter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

namespace verbatim {
namespace {

EventCounter make_counter() {
  Result<EventCounter> counter = EventCounter::create();
  EXPECT_TRUE(counter.ok());
  return counter.take();
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

TEST(EventCounter, IsReadableExactlyWhileEventsAreQueued) {
  const EventCounter counter = make_counter();
  EXPECT_FALSE(readable(counter.fd()));
  counter.add();
  counter.add();
  EXPECT_TRUE(readable(counter.fd()));
  EXPECT_TRUE(EventCounter::take(counter.fd()).ok());
  EXPECT_TRUE(readable(counter.fd()));
  EXPECT_TRUE(EventCounter::take(counter.fd()).ok());
  EXPECT_FALSE(readable(counter.fd()));
}

TEST(EventCounter, TakingFromAnEmptyNonblockingCounterSaysEagain) {
  const EventCounter counter = make_counter();
  ASSERT_EQ(fcntl(counter.fd(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(EventCounter::take(counter.fd()).error, EAGAIN);
}

TEST(EventCounter, ADuplicateTakesTheSameEvents) {
  const EventCounter counter = make_counter();
  const FileDescriptor duplicate(dup(counter.fd()));
  counter.add();
  EXPECT_TRUE(EventCounter::take(duplicate.get()).ok());
  EXPECT_FALSE(readable(counter.fd()));
}

TEST(EventCounter, TakingBackRemovesOneEventOfABlockingCounter) {
  const EventCounter counter = make_counter();
  counter.add();
  counter.add();
  counter.take_back();
  EXPECT_TRUE(readable(counter.fd()));
  counter.take_back();
  EXPECT_FALSE(readable(counter.fd()));
}

TEST(EventCounter, TakingBackFromAnEmptyBlockingCounterDoesNotWait) {
  const EventCounter counter = make_counter();
  ASSERT_EQ(fcntl(counter.fd(), F_GETFL) & O_NONBLOCK, 0);
  counter.take_back();
  EXPECT_FALSE(readable(counter.fd()));
}

TEST(EventCounter, ABlockedTakerGetsTheEventAddedByAnotherThread) {
  const EventCounter counter = make_counter();
  Status status{EIO};
  std::thread taker([&] { status = EventCounter::take(counter.fd()); });
  counter.add();
  taker.join();
  EXPECT_TRUE(status.ok());
  EXPECT_FALSE(readable(counter.fd()));
}

TEST(EventCounter, IsClosedOnExec) {
  const EventCounter counter = make_counter();
  EXPECT_EQ(fcntl(counter.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

}  // namespace
}  // namespace verbatim
