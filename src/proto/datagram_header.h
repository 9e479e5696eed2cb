// The 40 bytes that stand before a UD message in its receive buffer (IBTA annex A17.4.5.2): between IPv4 addresses 20
// bytes without a meaning, zero here, and then the packet's IPv4 header; between IPv6 addresses its IPv6 header. What
// api/ibverbs/reply_path.h reads. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/work.h"

namespace verbatim {

inline constexpr size_t kDatagramHeader = 40;

// `payload_length`: the bytes of the message and of its immediate data, at most a path MTU and 4. The addresses are of
// one kind, as model::AddressHandle sees to.
std::array<uint8_t, kDatagramHeader> datagram_header(const DatagramAddress& address, uint32_t payload_length);

}  // namespace verbatim
