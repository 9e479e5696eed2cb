// Names of things that the connection manager and its callers speak about. Plain values.
#pragma once

#include <compare>
#include <cstdint>

namespace verbatim::cm {

// A communication identifier (rdma_cm_id); 0 is none. Chosen by whoever creates it, never twice: the manager, for the
// requests it shows, takes those with the highest bit, which are nobody else's.
struct IdHandle {
  uint64_t value = 0;
  auto operator<=>(const IdHandle&) const = default;
  explicit operator bool() const { return value != 0; }
};
inline constexpr uint64_t kManagersHandles = uint64_t{1} << 63;

// The process that an identifier belongs to; chosen by the caller.
struct Owner {
  uint64_t value = 0;
  auto operator<=>(const Owner&) const = default;
};

// An event channel; chosen by the caller.
struct Channel {
  uint64_t value = 0;
  auto operator<=>(const Channel&) const = default;
};

// A multicast group that an identifier has joined. Never used twice; 0 is none.
struct MembershipHandle {
  uint64_t value = 0;
  auto operator<=>(const MembershipHandle&) const = default;
  explicit operator bool() const { return value != 0; }
};

}  // namespace verbatim::cm
