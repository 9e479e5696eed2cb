// IP addresses as RDMA CM uses them. Plain values, thread-safe.
#pragma once

#include <compare>
#include <cstdint>

#include "base/types.h"

namespace verbatim::cm {

enum class Family : uint8_t { none, ipv4, ipv6 };

// An address and a port, as in a sockaddr_in or a sockaddr_in6.
struct Address {
  Family family = Family::none;
  Gid ip;  // the GID of the address: an IPv4 address is IPv4-mapped
  uint16_t port = 0;
  uint32_t scope_id = 0;  // the interface of a link-local IPv6 address

  auto operator<=>(const Address&) const = default;

  static Address wildcard(Family family, uint16_t port = 0);
  static Address loopback(Family family, uint16_t port = 0);

  bool is_wildcard() const;
  bool is_link_local() const;  // fe80::/10
  Address with_port(uint16_t other_port) const;
  // The same address, whatever the ports.
  bool is_same_host(const Address& other) const;
};

// An address that one of this host's interfaces has.
struct HostAddress {
  Gid ip;
  uint32_t interface_index = 0;
  uint8_t path_mtu = 0;  // as in a path record: 1 is 256 bytes, 5 is 4096
  uint8_t rate = 0;      // as in a path record
};

}  // namespace verbatim::cm
