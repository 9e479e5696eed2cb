// The stores of a guarded copy one by one: a child process copies into shared memory, single-stepped, and after every
// instruction the destination is looked at. So what a spinning processor may see is not left to chance.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/guarded_copy.h"

namespace verbatim {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kShared = 1 << 16;

// One instruction's effect: bytes [begin, end) of the message appeared. Two that are not neighbours fail the test.
struct Store {
  size_t begin;
  size_t end;
  size_t size() const { return end - begin; }
};

class SharedMemory {
 public:
  SharedMemory() {
    void* memory = mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    bytes_ = static_cast<unsigned char*>(memory);
  }
  SharedMemory(const SharedMemory&) = delete;
  ~SharedMemory() { munmap(bytes_, kShared); }
  unsigned char* bytes() const { return bytes_; }

 private:
  unsigned char* bytes_;
};

// The child: stops before the copy, so that only the copy is stepped through.
[[noreturn]] void copy_traced(unsigned char* to, const unsigned char* from, size_t length) {
  CopyFault fault;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
  if (!guarded_copy(to, from, 0, &fault)) _exit(2);
  raise(SIGSTOP);
  _exit(guarded_copy(to, from, length, &fault) ? 0 : 3);
}

class StoreTrace : public testing::Test {
 protected:
  // The copy of `length` bytes of ones, interrupted before instruction number `when`; what was there by then, as many
  // as it says, is changed to twos. Nothing when the copy was over before.
  std::optional<ptrdiff_t> interrupt_copy(size_t length, size_t offset, int when) {
    unsigned char* to = memory_.bytes() + offset;
    std::memset(memory_.bytes(), 0, kShared);
    const std::vector<unsigned char> from(length, 1);
    const auto watch_word = reinterpret_cast<uintptr_t>(&interruption_watch());
    const pid_t child = fork();
    if (child == 0) copy_traced(to, from.data(), length);
    int status = 0;
    waitpid(child, &status, 0);
    for (int i = 0; i < when && WIFSTOPPED(status); ++i) {
      ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      waitpid(child, &status, 0);
    }
    const bool over = !WIFSTOPPED(status) || to[length - 1] != 0;
    const ptrdiff_t stored = std::count(to, to + length, 1);
    std::replace(to, to + length, 1, 2);
    // As if the thread were watched: a stop is an interruption.
    if (!over) ptrace(PTRACE_POKEDATA, child, watch_word, &kCopySequence);
    ptrace(PTRACE_CONT, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    return over ? std::nullopt : std::optional(stored);
  }

  // Every store of a copy of `length` bytes of ones to line + `offset`, in the order of time.
  std::vector<Store> stores_of(size_t length, size_t offset, size_t from_offset = 0) {
    unsigned char* to = memory_.bytes() + offset;
    std::memset(memory_.bytes(), 0, kShared);
    const std::vector<unsigned char> from(from_offset + length, 1);
    const pid_t child = fork();
    if (child == 0) copy_traced(to, from.data() + from_offset, length);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
      ADD_FAILURE() << "a process cannot trace its child here";
      return {};
    }
    std::vector<Store> stores = step_through(child, to, length);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return stores;
  }

  SharedMemory memory_;

 private:
  static std::vector<Store> step_through(pid_t child, const unsigned char* to, size_t length) {
    std::vector<Store> stores;
    std::vector<unsigned char> before(length, 0);
    size_t missing = length;
    int status = 0;
    while (missing > 0 && ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
      if (std::memcmp(before.data(), to, length) == 0) continue;
      const Store store = difference(before, to);
      missing -= store.size();
      std::memcpy(before.data(), to, length);
      stores.push_back(store);
    }
    EXPECT_EQ(missing, 0u) << "the copy ended early";
    return stores;
  }

  static Store difference(const std::vector<unsigned char>& before, const unsigned char* now) {
    const size_t length = before.size();
    Store store{0, length};
    while (before[store.begin] == now[store.begin]) ++store.begin;
    while (before[store.end - 1] == now[store.end - 1]) --store.end;
    for (size_t i = store.begin; i < store.end; ++i) EXPECT_NE(before[i], now[i]) << "one instruction, two places";
    return store;
  }
};

// How many stores make [begin, end) of the message, and whether they ascend without a gap.
void expect_ascending(const std::vector<Store>& stores, size_t begin, size_t end) {
  size_t next = begin;
  for (const Store& store : stores) {
    if (store.end <= begin || store.begin >= end) continue;
    EXPECT_EQ(store.begin, next);
    next = store.end;
  }
  EXPECT_EQ(next, end);
}

void expect_no_store_across_lines(const std::vector<Store>& stores, size_t offset) {
  for (const Store& store : stores) {
    EXPECT_EQ((offset + store.begin) / kLine, (offset + store.end - 1) / kLine) << store.begin << ".." << store.end;
  }
}

TEST_F(StoreTrace, AnAlignedWordIsOneStore) {
  for (const size_t width : {1, 2, 4, 8}) {
    for (size_t offset = 0; offset < 32; offset += width) {
      for (const size_t from_offset : {0, 3}) {
        const std::vector<Store> stores = stores_of(width, offset, from_offset);
        EXPECT_EQ(stores.size(), 1u) << width << " bytes at line + " << offset;
      }
    }
  }
}

TEST_F(StoreTrace, AShortMessageAscends) {
  for (const size_t length : {2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 63, 64, 65, 100, 127, 128}) {
    for (const size_t offset : {0, 1, 2, 3, 4, 7, 8, 12, 15, 31, 48, 57, 63}) {
      SCOPED_TRACE(testing::Message() << length << " bytes at line + " << offset);
      const std::vector<Store> stores = stores_of(length, offset);
      expect_ascending(stores, 0, length);
      expect_no_store_across_lines(stores, offset);
    }
  }
}

TEST_F(StoreTrace, ALongMessageHasItsFirstLineFirstAndItsLastLineLast) {
  for (const size_t length : {129, 130, 192, 300, 1023, 1500, 3000}) {
    for (const size_t offset : {0, 1, 8, 37, 63}) {
      SCOPED_TRACE(testing::Message() << length << " bytes at line + " << offset);
      const std::vector<Store> stores = stores_of(length, offset);
      const size_t first_line = kLine - offset;
      const size_t last_line = (offset + length - 1) / kLine * kLine - offset;
      expect_ascending(stores, 0, first_line);
      expect_ascending(stores, last_line, length);
      expect_no_store_across_lines(stores, offset);
      const auto touches_last = [&](const Store& store) { return store.begin >= last_line; };
      const auto after_first = [&](const Store& store) { return store.begin >= first_line; };
      EXPECT_TRUE(std::is_partitioned(stores.begin(), stores.end(), [&](auto& s) { return !after_first(s); }));
      EXPECT_TRUE(std::is_partitioned(stores.begin(), stores.end(), [&](auto& s) { return !touches_last(s); }));
    }
  }
}

TEST_F(StoreTrace, AnInterruptedCopyGoesOnWhereItWasAndStoresNothingTwice) {
  if (!notices_interruption()) GTEST_SKIP() << "no restartable sequences here";
  for (const size_t length : {1, 3, 8, 13, 100, 300}) {
    for (const size_t offset : {0, 37}) {
      int amidst = 0;
      for (int when = 1; const auto stored = interrupt_copy(length, offset, when); ++when) {
        const unsigned char* to = memory_.bytes() + offset;
        SCOPED_TRACE(testing::Message() << length << " bytes at line + " << offset << ", before instruction " << when);
        ASSERT_EQ(std::count(to, to + length, 2), *stored);
        ASSERT_EQ(std::count(to, to + length, 1), static_cast<ptrdiff_t>(length) - *stored);
        amidst += *stored != 0;
      }
      EXPECT_EQ(amidst != 0, length != 1 && !(length == 8 && offset == 0));
    }
  }
}

// A string instruction may store in any order, so it may not reach the last line: its stores are single bytes here.
TEST_F(StoreTrace, TheFirstAndLastLineAreWholeWords) {
  for (const size_t length : {64, 128, 256, 1024, 4096}) {
    SCOPED_TRACE(testing::Message() << length << " bytes");
    for (const Store& store : stores_of(length, 0)) {
      const bool outer_line = store.begin < kLine || store.begin >= length - kLine;
      const bool last = store.begin >= length - 16;
      EXPECT_GE(store.size(), outer_line ? 8u : 1u) << "at " << store.begin;
      EXPECT_LE(store.size(), last ? 8u : 16u) << "at " << store.begin;
    }
  }
}

}  // namespace
}  // namespace verbatim
