#include "wire/rdma_ip_cm_header.h"

#include <algorithm>

namespace verbatim::wire {
namespace {

// Byte 0: major and minor version; byte 1: IP version in the upper half.
constexpr size_t kPort = 2, kSource = 4, kDestination = 20, kAddress = 16, kIpv4 = 4;

Gid address_from(std::span<const uint8_t, kAddress> bytes, uint8_t ip_version) {
  Gid gid;
  std::ranges::copy(bytes, gid.bytes.begin());
  if (ip_version == 4) {
    std::fill_n(gid.bytes.begin(), 10, uint8_t{0});
    std::fill_n(gid.bytes.begin() + 10, 2, uint8_t{0xff});
  }
  return gid;
}

void put_address(const Gid& gid, uint8_t ip_version, std::span<uint8_t, kAddress> to) {
  std::ranges::copy(gid.bytes, to.begin());
  if (ip_version == 4) std::ranges::fill(to.first<kAddress - kIpv4>(), uint8_t{0});
}

}  // namespace

std::variant<RdmaIpCmHeader, Reason> parse_rdma_ip_cm_header(std::span<const uint8_t> bytes) {
  if (bytes.size() < kRdmaIpCmHeaderSize || bytes[0] != 0) return Reason::rdma_ip_cm_header;
  const uint8_t ip_version = bytes[1] >> 4;
  if (ip_version != 4 && ip_version != 6) return Reason::rdma_ip_cm_header;
  return RdmaIpCmHeader{.ip_version = ip_version,
                        .source_port = static_cast<uint16_t>(bytes[kPort] << 8 | bytes[kPort + 1]),
                        .source_address = address_from(bytes.subspan<kSource, kAddress>(), ip_version),
                        .destination_address = address_from(bytes.subspan<kDestination, kAddress>(), ip_version)};
}

void emit_rdma_ip_cm_header(const RdmaIpCmHeader& header, std::span<uint8_t, kRdmaIpCmHeaderSize> to) {
  to[0] = 0;
  to[1] = static_cast<uint8_t>(header.ip_version << 4);
  to[kPort] = static_cast<uint8_t>(header.source_port >> 8);
  to[kPort + 1] = static_cast<uint8_t>(header.source_port);
  put_address(header.source_address, header.ip_version, to.subspan<kSource, kAddress>());
  put_address(header.destination_address, header.ip_version, to.subspan<kDestination, kAddress>());
}

}  // namespace verbatim::wire
