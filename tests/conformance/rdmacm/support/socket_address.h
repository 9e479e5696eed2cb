// An address of IPv4 or IPv6 with its port, as the calls of rdma_cma.h take it and show it. A value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace verbatim::conformance {

class SocketAddress {
 public:
  SocketAddress() = default;  // AF_UNSPEC
  static SocketAddress of(const sockaddr* address);
  // In figures: "127.0.0.1", "::1", "fe80::1%eth0". Ends the program if it is none.
  static SocketAddress parse(const std::string& text, uint16_t port = 0);

  // The calls take it without const, and leave it as it is.
  sockaddr* get() const { return const_cast<sockaddr*>(&storage_.any); }
  sa_family_t family() const { return storage_.any.sa_family; }
  uint16_t port() const;
  SocketAddress with_port(uint16_t port) const;
  std::string text() const;  // with the port

  bool operator==(const SocketAddress& other) const { return text() == other.text(); }

 private:
  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
    sockaddr_storage all{};
  } storage_;
};
inline void PrintTo(const SocketAddress& address, std::ostream* out) { *out << address.text(); }

// Kinds of addresses that a host has: of its loopback interface, or of another one.
enum class Place { loopback_ipv4, loopback_ipv6, own_ipv4, own_ipv6, link_local };
const char* name(Place place);
// Port 0. Nothing if this host has none of that kind.
std::optional<SocketAddress> address_at(Place place);

// Addresses that no host has (RFC 5737, RFC 3849).
inline constexpr const char* kNobodyIpv4 = "198.51.100.1";
inline constexpr const char* kNobodyIpv6 = "2001:db8::1";

}  // namespace verbatim::conformance
