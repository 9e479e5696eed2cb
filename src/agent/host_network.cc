#include "agent/host_network.h"

#include <string.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/path_mtu.h"
#include "host/host_interfaces.h"

namespace verbatim::agent {
namespace {

struct RateRow {
  uint32_t mbps;
  uint8_t rate;  // as in a path record, IBTA 15.2.5.16
};

// What Linux puts into a RoCE path record: no other rates, and 2.5 Gb/s where the speed is not known.
constexpr std::array kRates{RateRow{40'000, 7}, RateRow{30'000, 4}, RateRow{20'000, 6}, RateRow{10'000, 3},
                            RateRow{0, 2}};

uint8_t path_rate(uint32_t mbps) {
  return std::ranges::find_if(kRates, [&](const RateRow& row) { return mbps >= row.mbps; })->rate;
}

// The way to the network at large first, what stays within the host last.
int reach(const host::HostInterface& interface) {
  if (interface.has_default_route) return 0;
  return interface.kind == host::InterfaceKind::loopback ? 2 : 1;
}

}  // namespace

KernelNetwork::KernelNetwork() {
  Result<host::AddressWatch> watch = host::AddressWatch::open();
  if (watch.ok())
    watch_ = watch.take();
  else
    log(LogLevel::warn, "agent: changes of this host's addresses will not be noticed: {}", ::strerror(watch.error()));
}

Result<std::vector<cm::HostAddress>> KernelNetwork::addresses() {
  if (watch_) watch_->drain();  // first: what happens while the tables are read is news
  Result<std::vector<host::HostInterface>> interfaces = host::host_interfaces();
  if (!interfaces.ok()) return interfaces.status();
  std::ranges::stable_sort(interfaces.value(), {}, reach);
  std::vector<cm::HostAddress> addresses;
  for (const host::HostInterface& interface : interfaces.value())
    for (const Gid& ip : interface.addresses)
      addresses.push_back({.ip = ip,
                           .interface_index = interface.ifindex,
                           .path_mtu = static_cast<uint8_t>(largest_path_mtu(interface.mtu)),
                           .rate = path_rate(interface.speed_mbps)});
  return addresses;
}

}  // namespace verbatim::agent
