#include "api/ibverbs/reply_path.h"

#include <algorithm>

namespace verbatim::api {
namespace {

constexpr size_t kIpv4Header = 20;

uint32_t big_endian_32(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// RFC 791: the ones' complement sum over the header, its checksum included, is all ones.
bool is_ipv4_header(std::span<const uint8_t, kIpv4Header> header) {
  constexpr uint8_t kVersion4Of5Words = 0x45;
  if (header[0] != kVersion4Of5Words) return false;
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4Header; i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

Gid ipv4_mapped(std::span<const uint8_t> address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy_n(address.begin(), 4, gid.bytes.begin() + 12);
  return gid;
}

Gid ipv6(std::span<const uint8_t> address) {
  Gid gid;
  std::copy_n(address.begin(), 16, gid.bytes.begin());
  return gid;
}

}  // namespace

std::optional<ReplyPath> reply_path(std::span<const uint8_t, 40> bytes) {
  // IPv4 first: what stands before its header may be anything, also what looks like IPv6; its checksum may not.
  const std::span<const uint8_t, kIpv4Header> ipv4 = bytes.last<kIpv4Header>();
  if (is_ipv4_header(ipv4)) {
    return ReplyPath{
        .sender = ipv4_mapped(ipv4.subspan(12)), .receiver = ipv4_mapped(ipv4.subspan(16)), .traffic_class = ipv4[1]};
  }
  const uint32_t version_class_flow = big_endian_32(bytes);
  if (version_class_flow >> 28 != 6) return std::nullopt;
  return ReplyPath{.sender = ipv6(bytes.subspan(8)),
                   .receiver = ipv6(bytes.subspan(24)),
                   .flow_label = version_class_flow & 0xfffff,
                   .traffic_class = static_cast<uint8_t>(version_class_flow >> 20)};
}

}  // namespace verbatim::api
