#include "base/published.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

// Every word is a function of the first, so that a mixture of two values shows.
struct Pattern {
  std::array<uint64_t, 16> words{};
  static Pattern of(uint64_t seed) {
    Pattern pattern;
    for (size_t i = 0; i < pattern.words.size(); ++i) pattern.words[i] = (seed + 1) * (2 * i + 1);
    return pattern;
  }
  bool whole() const {
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] != words[0] * (2 * i + 1)) return false;
    return true;
  }
};

// As in a fresh memfd: zero bytes, and no constructor.
template <class T>
struct FreshMemory {
  alignas(64) unsigned char bytes[sizeof(Published<T>)] = {};
  Published<T>& get() { return *reinterpret_cast<Published<T>*>(bytes); }
};

TEST(Published, ZeroFilledMemoryReadsAsZeroValue) {
  FreshMemory<Pattern> memory;
  Pattern value = Pattern::of(7);
  ASSERT_TRUE(memory.get().read(value));
  EXPECT_EQ(value.words, Pattern{}.words);
}

TEST(Published, ReadsWhatWasPublishedLast) {
  FreshMemory<Pattern> memory;
  for (uint64_t seed : {3u, 1u, 2u}) {
    memory.get().publish(Pattern::of(seed));
    Pattern value;
    ASSERT_TRUE(memory.get().read(value));
    EXPECT_EQ(value.words, Pattern::of(seed).words);
  }
}

TEST(Published, WriterThatDiedInTheMiddleMakesReadingFailInBoundedTime) {
  FreshMemory<Pattern> memory;
  memory.get().publish(Pattern::of(1));
  // The first word of the object is the sequence count, odd while a writer is at it.
  uint64_t sequence;
  std::memcpy(&sequence, memory.bytes, sizeof sequence);
  ASSERT_EQ(sequence, 2u);
  ++sequence;
  std::memcpy(memory.bytes, &sequence, sizeof sequence);
  Pattern value = Pattern::of(9);
  EXPECT_FALSE(memory.get().read(value));
  EXPECT_EQ(value.words, Pattern::of(9).words) << "a failed read changed its argument";
}

// A value that was published and read once.
struct PublishedAndKnown : testing::Test {
  FreshMemory<Pattern> memory;
  Pattern value;
  uint64_t seen = Published<Pattern>::kUnseen;

  PublishedAndKnown() {
    memory.get().publish(Pattern::of(1));
    EXPECT_TRUE(refresh());
    EXPECT_EQ(value.words, Pattern::of(1).words);
  }
  bool refresh() { return memory.get().refresh(value, seen); }
};

TEST_F(PublishedAndKnown, IsCopiedAgainOnlyWhenSomethingWasPublished) {
  const Pattern mark = Pattern::of(9);
  value = mark;
  ASSERT_TRUE(refresh());
  EXPECT_EQ(value.words, mark.words) << "copied although nothing was published";

  // The same value once more is something new: its owner may have meant another thing by it.
  memory.get().publish(Pattern::of(1));
  ASSERT_TRUE(refresh());
  EXPECT_EQ(value.words, Pattern::of(1).words);
}

TEST_F(PublishedAndKnown, IsNotKnownWhileAWriterIsAtIt) {
  const uint64_t whole = seen, amid = seen + 1;
  std::memcpy(memory.bytes, &amid, sizeof amid);
  EXPECT_FALSE(refresh());
  EXPECT_EQ(seen, Published<Pattern>::kUnseen);
  std::memcpy(memory.bytes, &whole, sizeof whole);
  EXPECT_TRUE(refresh());
  EXPECT_EQ(seen, whole);
}

TEST(Published, NoReaderEverSeesAMixtureOfTwoValuesNorGoesBackInTime) {
  constexpr uint64_t kValues = 200'000;
  constexpr int kReaders = 3;
  FreshMemory<Pattern> memory;
  memory.get().publish(Pattern::of(0));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0}, torn{0}, backwards{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i)
    readers.emplace_back([&] {
      uint64_t newest = 0;
      while (!stop.load(std::memory_order_acquire)) {
        Pattern value;
        if (!memory.get().read(value)) continue;
        reads.fetch_add(1, std::memory_order_relaxed);
        if (!value.whole()) torn.fetch_add(1, std::memory_order_relaxed);
        if (value.words[0] < newest) backwards.fetch_add(1, std::memory_order_relaxed);
        newest = value.words[0];
      }
    });
  for (uint64_t seed = 1; seed < kValues || reads.load(std::memory_order_relaxed) < 1000; ++seed)
    memory.get().publish(Pattern::of(seed));
  stop.store(true, std::memory_order_release);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn.load(), 0u);
  EXPECT_EQ(backwards.load(), 0u);
  EXPECT_GE(reads.load(), 1000u);
}

// The writer stands still at whatever instruction the signal found it, as when another process is stopped there.
TEST(Published, WhoReadsWhileTheWriterStandsStillGetsAWholeValueOrNone) {
  static FreshMemory<Pattern> memory;
  static std::atomic<int> whole, none, torn;
  const auto look = [](int) {
    Pattern value;
    if (!memory.get().read(value))
      none.fetch_add(1);
    else
      (value.whole() ? whole : torn).fetch_add(1);
  };
  struct sigaction action {
  }, before{};
  action.sa_handler = look;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop{false};
  std::thread interrupter([&, writer = pthread_self()] {
    while (!stop.load()) pthread_kill(writer, SIGUSR1);
  });
  for (uint64_t seed = 0; whole.load() + none.load() + torn.load() < 1000; ++seed)
    memory.get().publish(Pattern::of(seed));
  stop.store(true);
  interrupter.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(torn.load(), 0);
}

// What the writer did before publish() is there for who reads the value: the other memory that an entry speaks of.
TEST(Published, PublishingMakesEarlierWritesVisible) {
  FreshMemory<Pattern> memory;
  constexpr uint64_t kLast = 2000;
  std::vector<uint64_t> plain(kLast + 1, 0);
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kLast; ++i) {
      plain[i] = i;
      memory.get().publish(Pattern::of(i));
    }
  });
  uint64_t seen = 0;
  while (seen != kLast) {
    Pattern value;
    if (!memory.get().read(value) || value.words[0] == 0) continue;
    seen = value.words[0] - 1;
    EXPECT_EQ(plain[seen], seen);
  }
  writer.join();
}

}  // namespace
}  // namespace verbatim
