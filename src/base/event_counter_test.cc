#include "base/event_counter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>

#include <atomic>
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

// Completions are pushed, and so events added, in calls that POSIX and the man pages know as no cancellation points.
TEST(EventCounter, AddingAndTakingBackAreNoCancellationPoints) {
  const EventCounter counter = make_counter();
  std::atomic<int> steps{0};
  std::thread cancelled([&] {
    pthread_cancel(pthread_self());
    counter.add();
    ++steps;
    counter.add();
    counter.take_back();
    ++steps;
    pthread_testcancel();
    ++steps;
  });
  cancelled.join();
  EXPECT_EQ(steps, 2);
  EXPECT_TRUE(readable(counter.fd()));
}

TEST(EventCounter, ACancelledTakerTakesNothing) {
  const EventCounter counter = make_counter();
  std::thread cancelled([&] {
    pthread_cancel(pthread_self());
    (void)EventCounter::take(counter.fd());
    ADD_FAILURE() << "take() is a cancellation point";
  });
  cancelled.join();
  counter.add();
  EXPECT_TRUE(readable(counter.fd()));
}

TEST(EventCounter, IsClosedOnExec) {
  const EventCounter counter = make_counter();
  EXPECT_EQ(fcntl(counter.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

}  // namespace
}  // namespace verbatim
