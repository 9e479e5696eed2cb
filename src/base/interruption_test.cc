// That a thread which was interrupted does nothing more of what it was watched for. Where exactly a copy stops and goes
// on is in guarded_copy_order_test.cc.
#include "base/interruption.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/guarded_atomic.h"
#include "base/guarded_copy.h"
#include "base/watched_call.h"

namespace verbatim {
namespace {

struct Interruption : testing::Test {
  void SetUp() override {
    if (!notices_interruption()) GTEST_SKIP() << "no restartable sequences here";
    ASSERT_TRUE(install_guard().ok());
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, &before_);
  }
  void TearDown() override {
    if (notices_interruption()) sigaction(SIGUSR1, &before_, nullptr);
  }
  // The scheduler may interrupt any attempt.
  template <class Attempt>
  static CopyEnd until_not_interrupted(const rseq_cs& sequence, Attempt attempt) {
    CopyEnd end;
    do {
      watch(sequence);
      end = attempt();
    } while (end == CopyEnd::interrupted);
    return end;
  }

  struct sigaction before_;
  CopyFault fault;
  uint64_t seen = 77;
};

TEST_F(Interruption, AWatchedThreadThatNobodyInterruptsCopiesAndChanges) {
  const std::vector<char> from(5000, 1);
  std::vector<char> to(5000);
  size_t copied = 0, done = 0;
  EXPECT_EQ(until_not_interrupted(kCopySequence,
                                  [&] {
                                    const CopyEnd end = interruptible_copy(to.data() + done, from.data() + done,
                                                                           to.size() - done, &copied, &fault);
                                    done += copied;
                                    return end;
                                  }),
            CopyEnd::done);
  EXPECT_EQ(done, to.size());
  EXPECT_EQ(to, from);
  uint64_t word = 5;
  const auto compare_swap = [&] { return interruptible_compare_swap(&word, 5, 6, &seen, &fault); };
  EXPECT_EQ(until_not_interrupted(kCompareSwapSequence, compare_swap), CopyEnd::done);
  EXPECT_EQ(seen, 5u);
  const auto fetch_add = [&] { return interruptible_fetch_add(&word, 10, &seen, &fault); };
  EXPECT_EQ(until_not_interrupted(kFetchAddSequence, fetch_add), CopyEnd::done);
  EXPECT_EQ(seen, 6u);
  EXPECT_EQ(word, 16u);
  const auto store = [&] { return interruptible_store(&word, 99, &fault); };
  EXPECT_EQ(until_not_interrupted(kStoreSequence, store), CopyEnd::done);
  EXPECT_EQ(word, 99u);
}

TEST_F(Interruption, NothingIsDoneByAThreadThatASignalInterruptedBefore) {
  for (const size_t length : {1, 8, 64, 5000}) {
    const std::vector<char> from(length, 1);
    std::vector<char> to(length);
    size_t copied = 1;
    watch(kCopySequence);
    raise(SIGUSR1);
    EXPECT_EQ(interruptible_copy(to.data(), from.data(), length, &copied, &fault), CopyEnd::interrupted);
    EXPECT_EQ(copied, 0u);
    EXPECT_EQ(to, std::vector<char>(length));
  }
  uint64_t word = 5;
  watch(kCompareSwapSequence);
  raise(SIGUSR1);
  EXPECT_EQ(interruptible_compare_swap(&word, 5, 6, &seen, &fault), CopyEnd::interrupted);
  watch(kFetchAddSequence);
  raise(SIGUSR1);
  EXPECT_EQ(interruptible_fetch_add(&word, 10, &seen, &fault), CopyEnd::interrupted);
  watch(kStoreSequence);
  raise(SIGUSR1);
  EXPECT_EQ(interruptible_store(&word, 99, &fault), CopyEnd::interrupted);
  EXPECT_EQ(word, 5u);
  EXPECT_EQ(seen, 77u);
}

TEST_F(Interruption, ACallIsMadeUnlessTheThreadWasInterrupted) {
  const auto call = [](long number, std::array<long, 6> arguments) {
    long answer;
    do {
      watch(kCallSequence);
      answer = watched_call(number, arguments);
    } while (answer == kCallNotMade);
    return answer;
  };
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(call(SYS_getpid, {}), getpid());
  EXPECT_EQ(call(SYS_close, {-1}), -EBADF);
  // One that uses all six.
  const long at = reinterpret_cast<long>(page);
  EXPECT_EQ(call(SYS_mmap, {at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0}), at);
  watch(kCallSequence);
  raise(SIGUSR1);
  EXPECT_EQ(watched_call(SYS_munmap, {at, 4096}), kCallNotMade);
  EXPECT_EQ(*static_cast<char*>(page), 0) << "the call was made";
  munmap(page, 4096);
}

TEST_F(Interruption, WhoIsWatchedForOneThingDoesNoOther) {
  uint64_t word = 5;
  watch(kFetchAddSequence);
  EXPECT_EQ(interruptible_store(&word, 99, &fault), CopyEnd::interrupted);
  EXPECT_EQ(word, 5u);
}

TEST_F(Interruption, AFaultIsOneAlsoInAWatchedThread) {
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t value = 1;
  size_t copied = 0;
  EXPECT_EQ(until_not_interrupted(kCopySequence,
                                  [&] { return interruptible_copy(nothing, &value, sizeof value, &copied, &fault); }),
            CopyEnd::fault);
  EXPECT_EQ(fault.address, nothing);
  fault = {};
  auto* const word = static_cast<uint64_t*>(nothing);
  EXPECT_EQ(until_not_interrupted(kFetchAddSequence, [&] { return interruptible_fetch_add(word, 1, &seen, &fault); }),
            CopyEnd::fault);
  EXPECT_EQ(fault.address, nothing);
  munmap(nothing, 4096);
}

TEST_F(Interruption, WhoIsStillWatchedFromBeforeDoesUnwatchedThingsToTheirEnd) {
  const std::vector<char> from(5000, 1);
  std::vector<char> to(5000);
  uint64_t word = 5;
  watch(kCopySequence);
  EXPECT_TRUE(guarded_copy(to.data(), from.data(), to.size(), &fault));
  EXPECT_EQ(to, from);
  watch(kFetchAddSequence);
  raise(SIGUSR1);
  EXPECT_TRUE(guarded_fetch_add(&word, 10, &seen, &fault));
  EXPECT_EQ(word, 15u);
}

TEST_F(Interruption, EachThreadIsWatchedForItself) {
  watch(kStoreSequence);
  std::thread([&] {
    uint64_t word = 5;
    watch(kFetchAddSequence);
    raise(SIGUSR1);
    EXPECT_EQ(interruptible_fetch_add(&word, 10, &seen, &fault), CopyEnd::interrupted);
    EXPECT_EQ(
        until_not_interrupted(kFetchAddSequence, [&] { return interruptible_fetch_add(&word, 1, &seen, &fault); }),
        CopyEnd::done);
    EXPECT_EQ(word, 6u);
  }).join();
}

}  // namespace
}  // namespace verbatim
