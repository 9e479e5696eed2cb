// Where a datagram came from, as its receive buffer says: the 40 bytes before a UD message hold an IPv6 header (or
// GRH), or 20 bytes of anything and then an IPv4 header (IBTA annex A17.4.5.2). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"

namespace verbatim::api {

struct ReplyPath {
  Gid sender;
  Gid receiver;  // the address it was sent to: one of ours, or a group
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0;
  bool operator==(const ReplyPath&) const = default;
};

// Nothing where the bytes are neither header.
std::optional<ReplyPath> reply_path(std::span<const uint8_t, 40> bytes);

}  // namespace verbatim::api
