// A value in shared memory with one writer and any number of readers that can only read it: a sequence count over
// relaxed words. Readers may be in another process, which may stop or die at any instruction, and so may the writer:
// reading is bounded and can fail. Zero-filled memory is a valid Published of a zero value, never published.
//
// Who reads the same value again and again keeps it with the sequence it was read at, and copies it anew only when that
// has changed. The count has 64 bits, so that it never comes to be the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace verbatim {

template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static constexpr int kWords = sizeof(T) / 8;

 public:
  // No value has been read: no sequence is this.
  static constexpr uint64_t kUnseen = ~uint64_t{0};

  // Writers are serialised by the caller. Counts the sequence up by two.
  void publish(const T& value) {
    uint64_t words[kWords];
    std::memcpy(words, &value, sizeof value);
    const uint64_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // pairs with the acquire fence in refresh()
    for (int i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    sequence_.store(sequence + 2, std::memory_order_release);  // pairs with the loads in refresh()
  }

  // Copies the value out and returns true, or false when a writer stays in the middle of publish() for longer than a
  // bounded spin (it was stopped there, or it died).
  bool read(T& out) const {
    uint64_t seen = kUnseen;
    return refresh(out, seen);
  }

  // The same, but copies nothing when the sequence is still `seen`, at which `out` was read. Sets `seen`; to kUnseen
  // when it returns false.
  bool refresh(T& out, uint64_t& seen) const {
    if (is_still(seen)) return true;
    seen = kUnseen;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint64_t before = sequence_.load(std::memory_order_acquire);  // pairs with publish()
      if (before & 1) continue;
      uint64_t words[kWords];
      for (int i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the release fence in publish()
      if (sequence_.load(std::memory_order_relaxed) != before) continue;
      std::memcpy(&out, words, sizeof out);
      seen = before;
      return true;
    }
    return false;
  }

  // Whether nothing was published since it was read at `seen`. A load.
  bool is_still(uint64_t seen) const {
    return sequence_.load(std::memory_order_acquire) == seen;  // pairs with publish()
  }

 private:
  static constexpr int kAttempts = 1000;

  std::atomic<uint64_t> sequence_;
  std::atomic<uint64_t> words_[kWords];
};

}  // namespace verbatim
