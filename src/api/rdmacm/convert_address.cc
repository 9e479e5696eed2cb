#include "api/rdmacm/convert_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstring>

namespace verbatim::api {
namespace {

constexpr size_t kIpv4Offset = 12;  // in an IPv4-mapped address

// Programs may have put them anywhere.
template <class Part>
Part read_as(const sockaddr* address) {
  Part part;
  std::memcpy(&part, address, sizeof part);
  return part;
}

cm::Address from_ipv4(const sockaddr_in& socket) {
  cm::Address address = cm::Address::wildcard(cm::Family::ipv4, ntohs(socket.sin_port));
  std::memcpy(address.ip.bytes.data() + kIpv4Offset, &socket.sin_addr, sizeof socket.sin_addr);
  return address;
}

cm::Address from_ipv6(const sockaddr_in6& socket) {
  cm::Address address{.family = cm::Family::ipv6, .port = ntohs(socket.sin6_port), .scope_id = socket.sin6_scope_id};
  std::memcpy(address.ip.bytes.data(), &socket.sin6_addr, sizeof socket.sin6_addr);
  return address;
}

}  // namespace

std::optional<cm::Address> from_c(const sockaddr* address) {
  if (!address) return cm::Address{};
  static_assert(offsetof(sockaddr, sa_family) == 0);
  switch (read_as<sa_family_t>(address)) {
    case AF_INET:
      return from_ipv4(read_as<sockaddr_in>(address));
    case AF_INET6:
      return from_ipv6(read_as<sockaddr_in6>(address));
    default:
      return std::nullopt;
  }
}

sockaddr_storage to_c(const cm::Address& address) {
  sockaddr_storage storage{};
  if (address.family == cm::Family::ipv4) {
    sockaddr_in socket{};
    socket.sin_family = AF_INET;
    socket.sin_port = htons(address.port);
    std::memcpy(&socket.sin_addr, address.ip.bytes.data() + kIpv4Offset, sizeof socket.sin_addr);
    std::memcpy(&storage, &socket, sizeof socket);
  } else if (address.family == cm::Family::ipv6) {
    sockaddr_in6 socket{};
    socket.sin6_family = AF_INET6;
    socket.sin6_port = htons(address.port);
    socket.sin6_scope_id = address.scope_id;
    std::memcpy(&socket.sin6_addr, address.ip.bytes.data(), sizeof socket.sin6_addr);
    std::memcpy(&storage, &socket, sizeof socket);
  }
  return storage;
}

socklen_t length_of(cm::Family family) {
  switch (family) {
    case cm::Family::ipv4:
      return sizeof(sockaddr_in);
    case cm::Family::ipv6:
      return sizeof(sockaddr_in6);
    case cm::Family::none:
      break;
  }
  return 0;
}

}  // namespace verbatim::api
