// The interfaces of this network namespace that are up, with their addresses, as the kernel lists them (rtnetlink(7)).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace verbatim::host {

enum class InterfaceKind : uint8_t { ordinary, tunnel, bridge, loopback };

struct HostInterface {
  uint32_t ifindex = 0;
  std::string name;
  uint32_t flags = 0;            // IFF_* of netdevice(7)
  uint32_t mtu = 0;              // bytes
  uint32_t speed_mbps = 0;       // 0: not known, as for most virtual interfaces
  std::array<uint8_t, 6> mac{};  // zero for a link layer without one
  InterfaceKind kind = InterfaceKind::ordinary;
  // True of at most one: the way to IPv4 at large, or, where there is none, to IPv6. The lowest metric wins.
  bool has_default_route = false;
  // IPv4 (mapped) and IPv6 addresses in the kernel's order. Left out: IPv6 addresses that are not yet, or not, found
  // to be unique on their link (tentative, dadfailed), as nothing may be sent from them.
  std::vector<Gid> addresses;
};

// In the order of their index. errno of the failed call where the kernel cannot be asked. Any thread; blocks only as
// long as the kernel takes to answer.
Result<std::vector<HostInterface>> host_interfaces();

}  // namespace verbatim::host
