#include "host/host_interfaces.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>
#include <tuple>

#include "host/route_socket.h"

namespace verbatim::host {
namespace {

// By index, so in order.
using Interfaces = std::map<uint32_t, HostInterface>;

constexpr std::string_view kBridges[] = {"bridge", "openvswitch"};
constexpr std::string_view kTunnels[] = {"tun",    "ppp",  "wireguard", "vxlan",  "geneve",  "gre", "gretap",
                                         "ip6gre", "ipip", "ip6gretap", "ip6tnl", "sit",     "vti", "vti6",
                                         "erspan", "xfrm", "ip6erspan", "l2tp",   "bareudp", "amt", "gtp"};

InterfaceKind kind_of(uint32_t flags, uint16_t hardware_type, std::string_view link_kind) {
  if ((flags & IFF_LOOPBACK) != 0) return InterfaceKind::loopback;
  if (std::ranges::find(kBridges, link_kind) != std::end(kBridges)) return InterfaceKind::bridge;
  if (std::ranges::find(kTunnels, link_kind) != std::end(kTunnels)) return InterfaceKind::tunnel;
  switch (hardware_type) {
    case ARPHRD_PPP:
    case ARPHRD_TUNNEL:
    case ARPHRD_TUNNEL6:
    case ARPHRD_SIT:
    case ARPHRD_IPGRE:
    case ARPHRD_IP6GRE:
    case ARPHRD_NONE:
      return InterfaceKind::tunnel;
    default:
      return InterfaceKind::ordinary;
  }
}

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// From sysfs, which may be that of another network namespace: then the name stands for another interface there.
uint32_t speed_of(const HostInterface& interface) {
  const std::string folder = "/sys/class/net/" + interface.name;
  if (read_number(folder + "/ifindex") != interface.ifindex) return 0;
  const int64_t speed = read_number(folder + "/speed").value_or(0);
  return speed > 0 && speed <= UINT32_MAX ? static_cast<uint32_t>(speed) : 0;
}

void add_link(Interfaces& interfaces, std::span<const std::byte> body) {
  const auto header = header_of<ifinfomsg>(body);
  if (!header || (header->ifi_flags & IFF_UP) == 0) return;
  const RouteAttributes attributes = attributes_after<ifinfomsg>(body);
  const RouteAttributes link_info(attributes.find(IFLA_LINKINFO).value_or(std::span<const std::byte>()));

  HostInterface interface;
  interface.ifindex = static_cast<uint32_t>(header->ifi_index);
  interface.name = attributes.text(IFLA_IFNAME);
  interface.flags = header->ifi_flags;
  interface.mtu = attributes.number(IFLA_MTU).value_or(0);
  interface.kind = kind_of(header->ifi_flags, header->ifi_type, link_info.text(IFLA_INFO_KIND));
  if (const auto mac = attributes.find(IFLA_ADDRESS); mac && mac->size() == interface.mac.size()) {
    std::memcpy(interface.mac.data(), mac->data(), mac->size());
  }
  interfaces[interface.ifindex] = interface;
}

std::optional<Gid> gid_of(int family, std::span<const std::byte> address) {
  Gid gid;
  if (family == AF_INET6 && address.size() == 16) {
    std::memcpy(gid.bytes.data(), address.data(), 16);
    return gid;
  }
  if (family == AF_INET && address.size() == 4) {
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(gid.bytes.data() + 12, address.data(), 4);
    return gid;
  }
  return std::nullopt;
}

void add_address(Interfaces& interfaces, std::span<const std::byte> body) {
  const auto header = header_of<ifaddrmsg>(body);
  if (!header) return;
  const auto interface = interfaces.find(header->ifa_index);
  if (interface == interfaces.end()) return;
  const RouteAttributes attributes = attributes_after<ifaddrmsg>(body);
  if ((attributes.number(IFA_FLAGS).value_or(header->ifa_flags) & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return;

  // On a point-to-point link IFA_ADDRESS is the other end's.
  auto address = attributes.find(IFA_LOCAL);
  if (!address) address = attributes.find(IFA_ADDRESS);
  if (!address) return;
  if (const std::optional<Gid> gid = gid_of(header->ifa_family, *address)) interface->second.addresses.push_back(*gid);
}

struct DefaultRoute {
  uint8_t family = AF_UNSPEC;
  uint32_t metric = 0;
  uint32_t ifindex = 0;
};

// The interface of a route, or of the first of its next hops.
uint32_t outgoing_interface(const RouteAttributes& attributes) {
  if (const auto ifindex = attributes.number(RTA_OIF)) return *ifindex;
  const auto hops = attributes.find(RTA_MULTIPATH);
  const auto first = hops ? header_of<rtnexthop>(*hops) : std::nullopt;
  return first ? static_cast<uint32_t>(first->rtnh_ifindex) : 0;
}

std::optional<DefaultRoute> default_route_in(std::span<const std::byte> body) {
  const auto header = header_of<rtmsg>(body);
  if (!header || header->rtm_dst_len != 0 || header->rtm_type != RTN_UNICAST) return std::nullopt;
  const RouteAttributes attributes = attributes_after<rtmsg>(body);
  if (attributes.number(RTA_TABLE).value_or(header->rtm_table) != RT_TABLE_MAIN) return std::nullopt;
  return DefaultRoute{header->rtm_family, attributes.number(RTA_PRIORITY).value_or(0), outgoing_interface(attributes)};
}

Result<Interfaces> read_links(RouteSocket& socket) {
  Interfaces interfaces;
  const Status status = socket.dump(
      RTM_GETLINK, AF_UNSPEC, [&] { interfaces.clear(); },
      [&](uint16_t type, std::span<const std::byte> body) {
        if (type == RTM_NEWLINK) add_link(interfaces, body);
      });
  if (!status.ok()) return status;
  for (auto& [ifindex, interface] : interfaces) interface.speed_mbps = speed_of(interface);
  return interfaces;
}

Status read_addresses(RouteSocket& socket, Interfaces& interfaces) {
  return socket.dump(
      RTM_GETADDR, AF_UNSPEC,
      [&] {
        for (auto& [ifindex, interface] : interfaces) interface.addresses.clear();
      },
      [&](uint16_t type, std::span<const std::byte> body) {
        if (type == RTM_NEWADDR) add_address(interfaces, body);
      });
}

// The best default route of `family` over one of `interfaces`, if there is one.
Result<std::optional<DefaultRoute>> read_default_route(RouteSocket& socket, uint8_t family,
                                                       const Interfaces& interfaces) {
  std::optional<DefaultRoute> best;
  const Status status = socket.dump(
      RTM_GETROUTE, family, [&] { best.reset(); },
      [&](uint16_t type, std::span<const std::byte> body) {
        const std::optional<DefaultRoute> route = type == RTM_NEWROUTE ? default_route_in(body) : std::nullopt;
        if (!route || route->family != family || !interfaces.contains(route->ifindex)) return;
        if (!best || route->metric < best->metric) best = route;
      });
  if (!status.ok()) return status;
  return best;
}

Status mark_default_route(RouteSocket& socket, Interfaces& interfaces) {
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    const Result<std::optional<DefaultRoute>> route = read_default_route(socket, family, interfaces);
    if (!route.ok()) return route.status();
    if (!route.value()) continue;
    interfaces.at(route.value()->ifindex).has_default_route = true;
    break;
  }
  return Status::success();
}

}  // namespace

Result<std::vector<HostInterface>> host_interfaces() {
  Result<RouteSocket> socket = RouteSocket::open();
  if (!socket.ok()) return socket.status();
  Result<Interfaces> interfaces = read_links(socket.value());
  if (!interfaces.ok()) return interfaces.status();
  if (const Status status = read_addresses(socket.value(), interfaces.value()); !status.ok()) return status;
  if (const Status status = mark_default_route(socket.value(), interfaces.value()); !status.ok()) return status;

  std::vector<HostInterface> list;
  for (auto& [ifindex, interface] : interfaces.value()) list.push_back(std::move(interface));
  return list;
}

}  // namespace verbatim::host
