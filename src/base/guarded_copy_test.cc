// What a guarded copy copies, and what it answers when memory is gone. The order of its stores, one by one, is in
// guarded_copy_order_test.cc; what happens to everybody else's signals, in guarded_copy_signal_test.cc.
#include "base/guarded_copy.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"

namespace verbatim {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kLine = 64;

// Two pages, of which the second cannot be touched.
class TornMemory {
 public:
  enum class Second { protected_page, beyond_the_file };

  explicit TornMemory(Second second) {
    const bool file = second == Second::beyond_the_file;
    const FileDescriptor fd(memfd_create("torn", MFD_CLOEXEC));
    if (ftruncate(fd.get(), static_cast<off_t>(2 * kPage)) != 0) abort();
    void* memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) abort();
    memory_ = static_cast<unsigned char*>(memory);
    if (file && ftruncate(fd.get(), static_cast<off_t>(kPage)) != 0) abort();
    if (!file && mprotect(memory_ + kPage, kPage, PROT_NONE) != 0) abort();
  }
  TornMemory(const TornMemory&) = delete;
  ~TornMemory() { munmap(memory_, 2 * kPage); }

  unsigned char* tear() const { return memory_ + kPage; }

 private:
  unsigned char* memory_;
};

unsigned char pattern(size_t i) { return static_cast<unsigned char>(1 + (i * 31 + i / 251) % 251); }

class GuardedCopy : public testing::Test {
 protected:
  GuardedCopy() { EXPECT_TRUE(install_guard().ok()); }
  CopyFault fault_;
};

void expect_exact_copy(size_t length, size_t to_offset, size_t from_offset) {
  std::vector<unsigned char> from(from_offset + length + 2 * kLine);
  for (size_t i = 0; i < from.size(); ++i) from[i] = pattern(i);
  std::vector<unsigned char> to(to_offset + length + 2 * kLine, 0);
  std::vector<unsigned char> expected = to;
  std::memcpy(expected.data() + to_offset, from.data() + from_offset, length);
  CopyFault fault;
  ASSERT_TRUE(guarded_copy(to.data() + to_offset, from.data() + from_offset, length, &fault));
  ASSERT_EQ(to, expected) << "length " << length << ", to + " << to_offset << ", from + " << from_offset;
}

TEST_F(GuardedCopy, CopiesEveryLengthAtEveryAlignmentAndNothingElse) {
  for (size_t length = 0; length <= 300; ++length) {
    for (size_t to = 0; to < 17; ++to) {
      for (const size_t from : {0, 1, 2, 3, 4, 7, 8, 15}) ASSERT_NO_FATAL_FAILURE(expect_exact_copy(length, to, from));
    }
  }
}

TEST_F(GuardedCopy, CopiesFromEveryPlaceInACacheLine) {
  for (const size_t length : {129, 130, 191, 192, 193, 255, 1024, 1200, 1279}) {
    for (size_t to = 0; to < kLine; ++to) ASSERT_NO_FATAL_FAILURE(expect_exact_copy(length, to, 5));
  }
}

TEST_F(GuardedCopy, CopiesLongMessages) {
  for (const size_t length : {2047, 4096, 4097, 65536, 65537, (1 << 20) + 3}) {
    for (const size_t to : {0, 1, 8, 63}) {
      for (const size_t from : {0, 3, 32}) ASSERT_NO_FATAL_FAILURE(expect_exact_copy(length, to, from));
    }
  }
}

TEST_F(GuardedCopy, CopiesOntoItself) {
  std::vector<unsigned char> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i);
  const std::vector<unsigned char> before = bytes;
  EXPECT_TRUE(guarded_copy(bytes.data(), bytes.data(), bytes.size(), &fault_));
  EXPECT_EQ(bytes, before);
}

TEST_F(GuardedCopy, NeverReadsOrWritesBeyondTheRange) {
  const TornMemory torn(TornMemory::Second::protected_page);
  std::vector<unsigned char> other(5000, 0x77);
  for (size_t length = 0; length <= 4096; length = length < 300 ? length + 1 : length * 2) {
    EXPECT_TRUE(guarded_copy(torn.tear() - length, other.data(), length, &fault_)) << length;
    EXPECT_TRUE(guarded_copy(other.data(), torn.tear() - length, length, &fault_)) << length;
  }
}

TEST_F(GuardedCopy, OfNothingTouchesNothing) { EXPECT_TRUE(guarded_copy(nullptr, nullptr, 0, &fault_)); }

class GuardedCopyOfTornMemory : public testing::TestWithParam<TornMemory::Second> {
 protected:
  GuardedCopyOfTornMemory() : torn_(GetParam()), other_(200 * 1024) {
    EXPECT_TRUE(install_guard().ok());
    for (size_t i = 0; i < other_.size(); ++i) other_[i] = pattern(i);
  }
  const TornMemory torn_;
  std::vector<unsigned char> other_;
  CopyFault fault_;
};

TEST_P(GuardedCopyOfTornMemory, NamesTheAddressThatCouldNotBeWrittenAndHasWrittenAllBeforeIt) {
  for (const size_t length : {1, 2, 3, 4, 7, 8, 16, 17, 64, 100, 128, 129, 300, 1500, 5000, 65536}) {
    for (const size_t good : {0, 1, 2, 5, 8, 15, 16, 40, 64, 99, 127, 1400, 4000}) {
      if (good >= length || length - good > kPage) continue;
      unsigned char* to = torn_.tear() - good;
      std::memset(torn_.tear() - kPage, 0, kPage);
      ASSERT_FALSE(guarded_copy(to, other_.data(), length, &fault_)) << length << " with " << good << " good";
      EXPECT_EQ(fault_.address, torn_.tear()) << length << " with " << good << " good";
      EXPECT_EQ(std::memcmp(to, other_.data(), good), 0) << length << " with " << good << " good";
      EXPECT_EQ(std::count(torn_.tear() - kPage, to, 0), to - (torn_.tear() - kPage));
    }
  }
}

// A copy of bytes from a source with `good` readable ones: some first part has arrived, never more than was readable.
TEST_P(GuardedCopyOfTornMemory, NamesTheAddressThatCouldNotBeRead) {
  for (size_t i = 0; i < kPage; ++i) torn_.tear()[-1 - static_cast<ptrdiff_t>(i)] = pattern(i);
  for (const size_t length : {1, 2, 3, 4, 7, 8, 16, 17, 64, 100, 128, 129, 300, 1500, 5000, 65536}) {
    for (const size_t good : {0, 1, 2, 5, 8, 15, 16, 40, 64, 99, 127, 1400, 4000}) {
      if (good >= length || length - good > kPage) continue;
      const unsigned char* from = torn_.tear() - good;
      std::vector<unsigned char> to(length, 0);
      ASSERT_FALSE(guarded_copy(to.data(), from, length, &fault_)) << length << " with " << good << " good";
      EXPECT_EQ(fault_.address, torn_.tear()) << length << " with " << good << " good";
      const auto arrived = static_cast<size_t>(std::find(to.begin(), to.end(), 0) - to.begin());
      EXPECT_LE(arrived, good);
      EXPECT_EQ(std::memcmp(to.data(), from, arrived), 0);
      EXPECT_EQ(std::count(to.begin() + static_cast<ptrdiff_t>(arrived), to.end(), 0),
                static_cast<ptrdiff_t>(length - arrived));
    }
  }
}

TEST_P(GuardedCopyOfTornMemory, WorksAgainOnceTheMemoryIsThere) {
  EXPECT_FALSE(guarded_copy(torn_.tear() - 10, other_.data(), 20, &fault_));
  EXPECT_TRUE(guarded_copy(torn_.tear() - 20, other_.data(), 20, &fault_));
  EXPECT_EQ(std::memcmp(torn_.tear() - 20, other_.data(), 20), 0);
}

TEST_P(GuardedCopyOfTornMemory, WorksInManyThreadsAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 2000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const bool torn = t % 2 == 0;
      std::vector<unsigned char> to(3000);
      for (int round = 0; round < kRounds; ++round) {
        CopyFault fault;
        const size_t length = 1 + static_cast<size_t>(round) % 2999;
        const unsigned char* from = torn ? torn_.tear() : other_.data() + round;
        const bool copied = guarded_copy(to.data(), from, length, &fault);
        const bool right =
            torn ? !copied && fault.address == from : copied && std::memcmp(to.data(), from, length) == 0;
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(, GuardedCopyOfTornMemory,
                         testing::Values(TornMemory::Second::protected_page, TornMemory::Second::beyond_the_file),
                         [](const auto& info) {
                           return info.param == TornMemory::Second::protected_page ? "Protected" : "Truncated";
                         });

TEST_F(GuardedCopy, SaysNullForAnAddressOutsideTheAddressSpace) {
#if defined(__x86_64__)
  char byte;
  fault_.address = &byte;
  EXPECT_FALSE(guarded_copy(&byte, reinterpret_cast<const void*>(uintptr_t{1} << 63), 1, &fault_));
  EXPECT_EQ(fault_.address, nullptr);
#endif
}

TEST_F(GuardedCopy, SurvivesInAThreadThatBlocksEverySignal) {
  const TornMemory torn(TornMemory::Second::protected_page);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&] {
    char byte = 0;
    EXPECT_FALSE(guarded_copy(&byte, torn.tear(), 1, &fault_));
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    EXPECT_TRUE(sigismember(&now, SIGTERM)) << "only what the guard needs is unblocked";
  }).join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(fault_.address, torn.tear());
}

// Waits as programs wait for an RDMA WRITE, but lets the other thread run where there are fewer processors than
// threads.
template <class Condition>
void spin_until(Condition condition) {
  for (int spins = 1; !condition(); ++spins) {
    if (spins % 256 == 0) std::this_thread::yield();
  }
}

// A message arrives over zeros, again and again; who has seen its last byte must find the whole of it.
bool last_byte_is_last(size_t length, size_t offset) {
  constexpr int kMessages = 200;
  std::vector<unsigned char> memory(length + 2 * kLine, 0);
  auto* to = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory.data()) + kLine - 1) & ~(kLine - 1));
  to += offset;
  std::atomic<int> cleared{0};
  std::thread writer([&] {
    CopyFault fault;
    const std::vector<unsigned char> from(length, 0xab);
    for (int message = 0; message < kMessages; ++message) {
      spin_until([&] { return cleared.load(std::memory_order_acquire) == message; });
      if (!guarded_copy(to, from.data(), length, &fault)) abort();
    }
  });
  int incomplete = 0;
  for (int message = 0; message < kMessages; ++message) {
    spin_until([&] { return __atomic_load_n(to + length - 1, __ATOMIC_ACQUIRE) != 0; });
    if (static_cast<size_t>(std::count(to, to + length, 0xab)) != length) ++incomplete;
    std::memset(to, 0, length);
    cleared.store(message + 1, std::memory_order_release);
  }
  writer.join();
  return incomplete == 0;
}

TEST_F(GuardedCopy, StoresTheLastByteLast) {
  for (const size_t length : {12, 64, 129, 300, 5000}) {
    for (const size_t offset : {0, 61}) {
      EXPECT_TRUE(last_byte_is_last(length, offset)) << length << " bytes at line + " << offset;
    }
  }
}

}  // namespace
}  // namespace verbatim
