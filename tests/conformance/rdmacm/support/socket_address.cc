#include "conformance/rdmacm/support/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <cstdlib>
#include <cstring>

namespace verbatim::conformance {
namespace {

bool is_of(const ifaddrs& entry, Place place) {
  const bool is_loopback = entry.ifa_flags & IFF_LOOPBACK;
  const bool is_ipv4 = entry.ifa_addr->sa_family == AF_INET;
  if (!is_ipv4 && entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  const bool is_link_local = !is_ipv4 && IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr);
  switch (place) {
    case Place::loopback_ipv4:
      return is_loopback && is_ipv4;
    case Place::loopback_ipv6:
      return is_loopback && !is_ipv4;
    case Place::own_ipv4:
      return !is_loopback && is_ipv4;
    case Place::own_ipv6:
      return !is_loopback && !is_ipv4 && !is_link_local;
    case Place::link_local:
      return !is_loopback && is_link_local;
  }
  return false;
}

}  // namespace

SocketAddress SocketAddress::of(const sockaddr* address) {
  SocketAddress result;
  const size_t size = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                      : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                       : sizeof(sa_family_t);
  memcpy(&result.storage_.all, address, size);
  return result;
}

SocketAddress SocketAddress::parse(const std::string& text, uint16_t port) {
  const addrinfo hints{.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) abort();
  const SocketAddress result = of(found->ai_addr);
  freeaddrinfo(found);
  return result.with_port(port);
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? storage_.ipv6.sin6_port : storage_.ipv4.sin_port);
}

SocketAddress SocketAddress::with_port(uint16_t port) const {
  SocketAddress result = *this;
  (family() == AF_INET6 ? result.storage_.ipv6.sin6_port : result.storage_.ipv4.sin_port) = htons(port);
  return result;
}

std::string SocketAddress::text() const {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  const socklen_t size = family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(&storage_.any, size, host, sizeof host, service, sizeof service, flags) != 0) return "none";
  return std::string(host) + " port " + service;
}

const char* name(Place place) {
  constexpr const char* kNames[] = {"LoopbackIpv4", "LoopbackIpv6", "OwnIpv4", "OwnIpv6", "LinkLocal"};
  return kNames[static_cast<int>(place)];
}

std::optional<SocketAddress> address_at(Place place) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) abort();
  std::optional<SocketAddress> found;
  for (const ifaddrs* entry = all; entry && !found; entry = entry->ifa_next)
    if (entry->ifa_addr && entry->ifa_flags & IFF_UP && is_of(*entry, place))
      found = SocketAddress::of(entry->ifa_addr);
  freeifaddrs(all);
  return found;
}

}  // namespace verbatim::conformance
