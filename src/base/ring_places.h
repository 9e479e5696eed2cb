// Where a ring keeps what is numbered from 0 on, the oldest of at most `entries` first: a power of two of places, so
// that finding one takes no division. A value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim {

class RingPlaces {
 public:
  explicit RingPlaces(size_t entries) : count_(std::bit_ceil(entries)) {}

  // How many there are: `entries` or more, and at least one.
  size_t count() const { return count_; }
  size_t of(uint64_t number) const { return number & (count_ - 1); }

 private:
  size_t count_;
};

}  // namespace verbatim
