#include "cm/address.h"

namespace verbatim::cm {
namespace {

constexpr Gid kIpv4Wildcard{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};
constexpr Gid kIpv4Loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
constexpr Gid kIpv6Loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

}  // namespace

Address Address::wildcard(Family family, uint16_t port) {
  return {.family = family, .ip = family == Family::ipv4 ? kIpv4Wildcard : Gid{}, .port = port};
}

Address Address::loopback(Family family, uint16_t port) {
  return {.family = family, .ip = family == Family::ipv4 ? kIpv4Loopback : kIpv6Loopback, .port = port};
}

bool Address::is_wildcard() const { return ip == wildcard(family).ip; }

bool Address::is_link_local() const {
  return family == Family::ipv6 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
}

Address Address::with_port(uint16_t other_port) const {
  Address result = *this;
  result.port = other_port;
  return result;
}

bool Address::is_same_host(const Address& other) const {
  return family == other.family && ip == other.ip && (!is_link_local() || scope_id == other.scope_id);
}

}  // namespace verbatim::cm
