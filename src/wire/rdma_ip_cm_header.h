// What the RDMA IP CM service puts before a program's private data in REQ and SIDR_REQ: who talks to whom, in terms of
// IP (IBTA annex A11.3). Plain values, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "base/reason.h"
#include "base/types.h"

namespace verbatim::wire {

inline constexpr size_t kRdmaIpCmHeaderSize = 36;

struct RdmaIpCmHeader {
  uint8_t ip_version = 4;  // 4 or 6
  uint16_t source_port = 0;
  // As GIDs: an IPv4 address is IPv4-mapped (on the wire it is not: 12 bytes of zero come before it).
  Gid source_address;
  Gid destination_address;
  bool operator==(const RdmaIpCmHeader&) const = default;
};

// Looks at the first 36 bytes. Reason::rdma_ip_cm_header: there are fewer, or the version of the service is not 0, or
// that of IP neither 4 nor 6.
std::variant<RdmaIpCmHeader, Reason> parse_rdma_ip_cm_header(std::span<const uint8_t> private_data);

// ip_version must be 4 or 6; `to` has room for it.
void emit_rdma_ip_cm_header(const RdmaIpCmHeader& header, std::span<uint8_t, kRdmaIpCmHeaderSize> to);

}  // namespace verbatim::wire
