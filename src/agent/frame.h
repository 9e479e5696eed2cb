// A message between an agent and a process as it travels: a versioned header, then the body, one message a packet of a
// SOCK_SEQPACKET socket. Plain values, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace verbatim::agent {

inline constexpr size_t kMaxFrame = 768;
inline constexpr size_t kMaxDescriptors = 2;

// Without its descriptors.
struct Frame {
  std::array<std::byte, kMaxFrame> bytes{};
  size_t size = 0;
  std::span<const std::byte> view() const { return {bytes.data(), size}; }
};

inline constexpr size_t kFrameHeader = 8;
inline constexpr size_t kMaxBody = kMaxFrame - kFrameHeader;

// A frame of that kind with an empty body.
Frame frame_of(uint16_t kind);

struct FrameView {
  uint16_t kind = 0;
  std::span<const std::byte> body;  // borrowed
};

// EPROTO: malformed. EPROTONOSUPPORT: another version of the protocol.
Result<FrameView> read_frame(std::span<const std::byte> bytes);

}  // namespace verbatim::agent
