// How much of a message one packet of RoCE v2 carries. Plain values.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace verbatim {

// Path MTU as the wire encodes it.
enum class PathMtu : uint8_t { bytes_256 = 1, bytes_512 = 2, bytes_1024 = 3, bytes_2048 = 4, bytes_4096 = 5 };

constexpr uint32_t bytes_of(PathMtu mtu) { return 128u << static_cast<uint8_t>(mtu); }

// The largest headers around a RoCE v2 payload: IPv6 40, UDP 8, BTH 12, RETH 16, immediate 4, ICRC 4.
inline constexpr uint32_t kRoceV2Overhead = 84;

// The largest path MTU whose packets fit an interface of `interface_mtu` bytes; 256 where none does, as there is none
// smaller.
constexpr PathMtu largest_path_mtu(uint32_t interface_mtu) {
  for (const PathMtu mtu : {PathMtu::bytes_4096, PathMtu::bytes_2048, PathMtu::bytes_1024, PathMtu::bytes_512}) {
    if (interface_mtu >= bytes_of(mtu) + kRoceV2Overhead) return mtu;
  }
  return PathMtu::bytes_256;
}

}  // namespace verbatim
