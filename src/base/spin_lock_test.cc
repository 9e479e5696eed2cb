#include "base/spin_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

TEST(SpinLock, HasOneHolderAtATime) {
  constexpr int kThreads = 4, kTurns = 20'000;
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        std::lock_guard guard(lock);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTurns);
}

TEST(SpinLock, IsNotTakenTwice) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

TEST(SpinLock, WhoWaitsLongSleepsMeanwhile) {
  SpinLock lock;
  lock.lock();
  timespec used{};
  std::thread waiter([&] {
    std::lock_guard guard(lock);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  });
  // How long it is held is what the waiter's processor time is compared with.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  lock.unlock();
  waiter.join();
  EXPECT_LT(used.tv_sec * 1'000'000'000 + used.tv_nsec, 100'000'000);
}

}  // namespace
}  // namespace verbatim
