// The vocabulary of numbers that must not be mixed up. Plain values: copyable, thread-safe, no ownership.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>

namespace verbatim {

// Which process of the host owns a queue pair. 12 bits; 0 is the agent's own, 0xfff is never given out.
struct Slot {
  uint16_t value = 0;
  auto operator<=>(const Slot&) const = default;
};
inline constexpr Slot kAgentSlot{0};
inline constexpr uint16_t kFirstSlot = 1;
inline constexpr uint16_t kLastSlot = 0xffe;
// Whether a process can have it.
constexpr bool is_given_out(Slot slot) { return slot.value >= kFirstSlot && slot.value <= kLastSlot; }

// Queue pair number, 24 bits: slot (12) then index (12), so that anyone can name a QPN's owner.
struct Qpn {
  uint32_t value = 0;
  static constexpr uint32_t kIndexBits = 12;
  static constexpr uint32_t kPerSlot = 1u << kIndexBits;
  static constexpr Qpn of(Slot slot, uint32_t index) { return {uint32_t{slot.value} << kIndexBits | index}; }
  constexpr Slot slot() const { return {static_cast<uint16_t>(value >> kIndexBits & 0xfff)}; }
  constexpr uint32_t index() const { return value & (kPerSlot - 1); }
  auto operator<=>(const Qpn&) const = default;
};

// Packet sequence number, 24 bits.
struct Psn {
  uint32_t value = 0;
  auto operator<=>(const Psn&) const = default;
};

// A memory key. One region has one key: its lkey and rkey are the same number, as on rdma_rxe.
struct MemoryKey {
  uint32_t value = 0;
  auto operator<=>(const MemoryKey&) const = default;
};

// A protection domain, unique within its process for the life of the process.
struct PdId {
  uint32_t value = 0;
  auto operator<=>(const PdId&) const = default;
};

// A GID in network byte order. RoCE v2: an IPv6 address, or an IPv4-mapped one (RFC 4291 2.5.5.2).
struct Gid {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Gid&) const = default;
  constexpr bool is_zero() const { return *this == Gid{}; }
  constexpr bool is_ipv4_mapped() const {
    constexpr std::array<uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(kPrefix.begin(), kPrefix.end(), bytes.begin());
  }
  // The address of a group: ff00::/8 (RFC 4291 2.7), or an IPv4-mapped one of 224.0.0.0/4.
  constexpr bool is_multicast() const { return bytes[0] == 0xff || (is_ipv4_mapped() && bytes[12] >> 4 == 0xe); }
  uint64_t word(int half) const {
    uint64_t value;
    std::memcpy(&value, bytes.data() + 8 * half, 8);
    return value;
  }
  // As inet_ntop prints it: "::ffff:10.0.0.1".
  std::string text() const;
};

// One life of one process's image: drawn at random when its adapter is made. Never 0.
struct Incarnation {
  uint64_t value = 0;
  auto operator<=>(const Incarnation&) const = default;
};

}  // namespace verbatim
