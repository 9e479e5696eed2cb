// Numbers nobody can guess, from the kernel: for keys, queue pair numbers and incarnations.
#pragma once

#include <cstdint>

namespace verbatim {

// Any thread. Never fails: getrandom(2) without flags cannot, once the system has booted.
uint64_t random_u64();

// Uniform in [0, bound); bound must be positive.
inline uint32_t random_below(uint32_t bound) {
  return static_cast<uint32_t>((static_cast<unsigned __int128>(random_u64()) * bound) >> 64);
}

}  // namespace verbatim
