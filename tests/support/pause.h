// A short pause of a random length without a system call, so that threads meet at ever different instructions. Not a
// way to wait for anything. Test code only; one for each thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>

namespace verbatim::testing_support {

class RandomPause {
 public:
  explicit RandomPause(uint32_t seed) : random_(seed) {}
  // Up to `most` turns of an empty loop.
  void operator()(uint32_t most) {
    for (uint32_t left = std::uniform_int_distribution<uint32_t>(0, most)(random_); left > 0; --left)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  }

 private:
  std::minstd_rand random_;
};

}  // namespace verbatim::testing_support
