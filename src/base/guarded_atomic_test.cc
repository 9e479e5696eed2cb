#include "base/guarded_atomic.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/sanitizer.h"
#include "support/shared_memory.h"

namespace verbatim {
namespace {

using testing_support::Pages;

class GuardedAtomic : public testing::Test {
 protected:
  GuardedAtomic() { EXPECT_TRUE(install_guard().ok()); }
  CopyFault fault_;
  uint64_t before_ = 0;
};

TEST_F(GuardedAtomic, CompareSwapSwapsWhatEquals) {
  uint64_t words[3] = {1, 0x1122334455667788, 2};
  ASSERT_TRUE(guarded_compare_swap(&words[1], 0x1122334455667788, 99, &before_, &fault_));
  EXPECT_EQ(before_, 0x1122334455667788u);
  EXPECT_EQ(words[1], 99u);
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[2], 2u);
}

TEST_F(GuardedAtomic, CompareSwapLeavesWhatDiffersInAnyBit) {
  for (int bit = 0; bit < 64; ++bit) {
    uint64_t word = uint64_t{1} << bit;
    ASSERT_TRUE(guarded_compare_swap(&word, 0, 99, &before_, &fault_));
    EXPECT_EQ(before_, uint64_t{1} << bit);
    EXPECT_EQ(word, uint64_t{1} << bit);
  }
}

TEST_F(GuardedAtomic, FetchAddWraps) {
  uint64_t words[3] = {1, ~uint64_t{0} - 1, 2};
  ASSERT_TRUE(guarded_fetch_add(&words[1], 5, &before_, &fault_));
  EXPECT_EQ(before_, ~uint64_t{0} - 1);
  EXPECT_EQ(words[1], 3u);
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[2], 2u) << "no carry";
}

TEST_F(GuardedAtomic, StoreStoresEightBytes) {
  uint64_t words[3] = {1, 0, 2};
  ASSERT_TRUE(guarded_store(&words[1], 0x1122334455667788, &fault_));
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[1], 0x1122334455667788u);
  EXPECT_EQ(words[2], 2u);
}

// Half of the threads use the guarded operations, the other half the processor's own, as the owner of the memory does.
TEST_F(GuardedAtomic, IsAtomicAgainstTheProcessorAndItself) {
  constexpr int kThreads = 4;
  constexpr uint64_t kRounds = 20000;
  const Pages pages(4096, Pages::Kind::shared_file);
  auto* word = reinterpret_cast<uint64_t*>(pages.data());
  const auto add_one = [word](int kind) {
    CopyFault fault;
    uint64_t before = 0;
    switch (kind) {
      case 0:
        return guarded_fetch_add(word, 1, &before, &fault);
      case 1:
        for (uint64_t seen = 0;; seen = before) {
          if (!guarded_compare_swap(word, seen, seen + 1, &before, &fault)) return false;
          if (before == seen) return true;
        }
      default:
        std::atomic_ref(*word).fetch_add(1, std::memory_order_relaxed);
        return true;
    }
  };
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; round < kRounds; ++round) failed += !add_one(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(*word, kThreads * kRounds);
}

class GuardedAtomicOfLostMemory : public testing::TestWithParam<Pages::Kind> {
 protected:
  GuardedAtomicOfLostMemory() : pages_(4096, GetParam()), word_(reinterpret_cast<uint64_t*>(pages_.data()) + 3) {
    EXPECT_TRUE(install_guard().ok());
  }
  Pages pages_;
  uint64_t* const word_;
  CopyFault fault_;
  uint64_t before_ = 1234;
};

TEST_P(GuardedAtomicOfLostMemory, NamesTheAddressAndLeavesTheResultAlone) {
  pages_.vanish();
  EXPECT_FALSE(guarded_compare_swap(word_, 0, 1, &before_, &fault_));
  EXPECT_EQ(fault_.address, word_);
  fault_ = {};
  EXPECT_FALSE(guarded_fetch_add(word_, 1, &before_, &fault_));
  EXPECT_EQ(fault_.address, word_);
  fault_ = {};
  EXPECT_FALSE(guarded_store(word_, 1, &fault_));
  EXPECT_EQ(fault_.address, word_);
  EXPECT_EQ(before_, 1234u);
}

TEST_P(GuardedAtomicOfLostMemory, CannotChangeWhatMayOnlyBeRead) {
  pages_.forbid_writing();
  EXPECT_FALSE(guarded_compare_swap(word_, 0, 1, &before_, &fault_));
  EXPECT_FALSE(guarded_fetch_add(word_, 1, &before_, &fault_));
  EXPECT_FALSE(guarded_store(word_, 1, &fault_));
  EXPECT_EQ(*word_, 0u);
}

TEST_P(GuardedAtomicOfLostMemory, SurvivesInAThreadThatBlocksEverySignal) {
  pages_.vanish();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&] { EXPECT_FALSE(guarded_fetch_add(word_, 1, &before_, &fault_)); }).join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(fault_.address, word_);
}

INSTANTIATE_TEST_SUITE_P(, GuardedAtomicOfLostMemory,
                         testing::Values(Pages::Kind::private_memory, Pages::Kind::shared_file), [](const auto& info) {
                           return info.param == Pages::Kind::private_memory ? "Protected" : "Truncated";
                         });

// What the program's own signals meet while guarded atomics run, in a process of its own.
class SignalsAroundGuardedAtomics : public testing::Test {
 protected:
  SignalsAroundGuardedAtomics() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  static constexpr int kRight = 42;
};

std::atomic<int> signals_taken{0};

TEST_F(SignalsAroundGuardedAtomics, ASentSignalReachesTheProgramAndCostsNoOperation) {
  if (kThreadSanitizer) GTEST_SKIP() << "it runs the handler of a sent SIGSEGV at once, under its own locks too";
  const auto scenario = [] {
    signal(SIGSEGV, [](int) { ++signals_taken; });
    if (!install_guard().ok()) _exit(1);
    const pid_t self = getpid();
    const pid_t sender = fork();
    if (sender == 0) {
      for (int i = 0; i < 200; ++i) kill(self, SIGSEGV), usleep(100);
      _exit(0);
    }
    uint64_t word = 0;
    uint64_t before = 0;
    uint64_t rounds = 0;
    CopyFault fault;
    bool right = true;
    while (waitpid(sender, nullptr, WNOHANG) == 0)
      for (int i = 0; i < 1000; ++i)
        right = right && guarded_fetch_add(&word, 1, &before, &fault) && before == rounds++;
    _exit(right && word == rounds && signals_taken > 0 ? kRight : 1);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

__attribute__((no_sanitize("address", "thread"), noinline)) void touch(uint64_t* word) {
  *static_cast<volatile uint64_t*>(word) = 1;
}

TEST_F(SignalsAroundGuardedAtomics, AFaultElsewhereStillReachesTheProgram) {
  const auto scenario = [] {
    signal(SIGSEGV, [](int) { _exit(kRight); });
    if (!install_guard().ok()) _exit(1);
    Pages pages(4096, Pages::Kind::private_memory);
    auto* word = reinterpret_cast<uint64_t*>(pages.data());
    pages.vanish();
    CopyFault fault;
    if (guarded_store(word, 1, &fault)) _exit(2);
    touch(word);
    _exit(3);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

}  // namespace
}  // namespace verbatim
