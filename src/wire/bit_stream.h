// The fields of a management datagram one after the other: big-endian, most significant bit first, of any width
// (IBTA 1.5.1). A message lists its fields once, in a function `fields(stream, message)`; whether the stream reads,
// writes or counts decides what becomes of them.
//
// A stream stays inside its bytes: what would lie beyond their end reads as zero and is not written.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/types.h"

namespace verbatim::wire {

// A field is a number, an enumerator, or a struct around one `value`.
template <class T>
constexpr uint64_t number_of(const T& field) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    return static_cast<uint64_t>(field);
  else
    return field.value;
}

template <class T>
constexpr void set_number(T& field, uint64_t number) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    field = static_cast<T>(number);
  else
    field.value = static_cast<decltype(field.value)>(number);
}

// Where the next bits stand within one byte.
struct BitRun {
  size_t octet = 0;
  unsigned count = 0;  // of bits
  unsigned shift = 0;  // how many bits of the byte follow them
  uint8_t mask() const { return static_cast<uint8_t>((1u << count) - 1); }
};

inline BitRun next_run(size_t at, unsigned width) {
  const unsigned left = 8 - static_cast<unsigned>(at % 8);
  const unsigned count = std::min(left, width);
  return {.octet = at / 8, .count = count, .shift = left - count};
}

class BitReader {
 public:
  static constexpr bool kReads = true;
  explicit BitReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <class T>
  void field(std::string_view, unsigned width, T& value) {
    set_number(value, take(width));
  }
  void field(std::string_view, Gid& gid) { take(gid.bytes); }
  template <size_t N>
  void field(std::string_view, std::array<uint8_t, N>& value) {
    take(value);
  }
  void reserved(unsigned width) { at_ += width; }

 private:
  void take(std::span<uint8_t> to) {
    for (uint8_t& octet : to) octet = static_cast<uint8_t>(take(8));
  }
  uint64_t take(unsigned width) {
    uint64_t value = 0;
    while (width > 0) {
      const BitRun run = next_run(at_, width);
      const uint8_t octet = run.octet < bytes_.size() ? bytes_[run.octet] : 0;
      value = value << run.count | (octet >> run.shift & run.mask());
      at_ += run.count;
      width -= run.count;
    }
    return value;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;  // in bits
};

// The bytes must be zero, and stay so in reserved bits.
class BitWriter {
 public:
  static constexpr bool kReads = false;
  explicit BitWriter(std::span<uint8_t> bytes) : bytes_(bytes) {}

  template <class T>
  void field(std::string_view, unsigned width, const T& value) {
    assert(width == 64 || number_of(value) >> width == 0);
    put(number_of(value), width);
  }
  void field(std::string_view, const Gid& gid) { put(gid.bytes); }
  template <size_t N>
  void field(std::string_view, const std::array<uint8_t, N>& value) {
    put(value);
  }
  void reserved(unsigned width) { at_ += width; }

 private:
  void put(std::span<const uint8_t> from) {
    for (uint8_t octet : from) put(octet, 8);
  }
  void put(uint64_t value, unsigned width) {
    while (width > 0) {
      const BitRun run = next_run(at_, width);
      width -= run.count;
      const uint8_t bits = static_cast<uint8_t>(value >> width) & run.mask();
      if (run.octet < bytes_.size()) bytes_[run.octet] |= static_cast<uint8_t>(bits << run.shift);
      at_ += run.count;
    }
  }

  std::span<uint8_t> bytes_;
  size_t at_ = 0;  // in bits
};

// How many bits the fields of a message are.
class BitCounter {
 public:
  static constexpr bool kReads = false;
  template <class T>
  constexpr void field(std::string_view, unsigned width, const T&) {
    bits += width;
  }
  constexpr void field(std::string_view, const Gid&) { bits += 128; }
  template <size_t N>
  constexpr void field(std::string_view, const std::array<uint8_t, N>&) {
    bits += 8 * N;
  }
  constexpr void reserved(unsigned width) { bits += width; }

  size_t bits = 0;
};

}  // namespace verbatim::wire
