// The 40 bytes before a datagram, read as a program reads them (IBTA annex A17.4.5.2).
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

namespace verbatim::conformance {

inline constexpr uint32_t kDatagramHeader = 40;

// EXPECTs that they are of a packet from one to the other, over IPv4 or IPv6 as `to` says, with the hop limit of
// Side::create_address_handle().
void expect_datagram_header(const std::array<uint8_t, kDatagramHeader>& header, const ibv_gid& from, const ibv_gid& to);

}  // namespace verbatim::conformance
