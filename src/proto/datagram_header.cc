#include "proto/datagram_header.h"

#include <algorithm>
#include <span>

namespace verbatim {
namespace {

constexpr size_t kIpv4Header = 20;
constexpr uint8_t kProtocolUdp = 17;

// Around a UD payload (IBTA 9.2, 9.5, annex A17.3): UDP 8, BTH 12, DETH 8, ICRC 4. The payload is padded to words.
constexpr uint32_t kTransportHeaders = 8 + 12 + 8 + 4;

uint16_t transport_length(uint32_t payload_length) {
  return static_cast<uint16_t>(kTransportHeaders + (payload_length + 3) / 4 * 4);
}

void put_16(std::span<uint8_t> to, uint16_t value) {
  to[0] = static_cast<uint8_t>(value >> 8);
  to[1] = static_cast<uint8_t>(value);
}

// RFC 791: the ones' complement of the ones' complement sum of all other words.
uint16_t ipv4_checksum(std::span<const uint8_t, kIpv4Header> header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4Header; i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void put_ipv4(std::span<uint8_t, kIpv4Header> header, const DatagramAddress& address, uint16_t length) {
  constexpr uint8_t kVersion4Of5Words = 0x45;
  constexpr uint16_t kDoNotFragment = 0x4000;
  header[0] = kVersion4Of5Words;
  header[1] = address.traffic_class;
  put_16(header.subspan(2), static_cast<uint16_t>(kIpv4Header + length));
  put_16(header.subspan(6), kDoNotFragment);
  header[8] = address.hop_limit;
  header[9] = kProtocolUdp;
  std::copy_n(address.source.bytes.begin() + 12, 4, header.begin() + 12);
  std::copy_n(address.destination.bytes.begin() + 12, 4, header.begin() + 16);
  put_16(header.subspan(10), ipv4_checksum(header));
}

// RFC 8200.
void put_ipv6(std::span<uint8_t, kDatagramHeader> header, const DatagramAddress& address, uint16_t length) {
  const uint32_t word = 6u << 28 | uint32_t{address.traffic_class} << 20 | (address.flow_label & 0xfffff);
  put_16(header, static_cast<uint16_t>(word >> 16));
  put_16(header.subspan(2), static_cast<uint16_t>(word));
  put_16(header.subspan(4), length);
  header[6] = kProtocolUdp;
  header[7] = address.hop_limit;
  std::ranges::copy(address.source.bytes, header.begin() + 8);
  std::ranges::copy(address.destination.bytes, header.begin() + 24);
}

}  // namespace

std::array<uint8_t, kDatagramHeader> datagram_header(const DatagramAddress& address, uint32_t payload_length) {
  std::array<uint8_t, kDatagramHeader> header{};
  const uint16_t length = transport_length(payload_length);
  if (address.destination.is_ipv4_mapped())
    put_ipv4(std::span(header).last<kIpv4Header>(), address, length);
  else
    put_ipv6(header, address, length);
  return header;
}

}  // namespace verbatim
