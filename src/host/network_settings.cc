#include "host/network_settings.h"

#include <fstream>
#include <optional>

namespace verbatim::host {
namespace {

std::optional<int> number_in(std::istream& file, int lowest, int highest) {
  int number = 0;
  if (!(file >> number) || number < lowest || number > highest) return std::nullopt;
  return number;
}

}  // namespace

NetworkSettings network_settings(const std::string& folder) {
  NetworkSettings settings;
  std::ifstream unprivileged(folder + "/net/ipv4/ip_unprivileged_port_start");
  if (const auto port = number_in(unprivileged, 0, UINT16_MAX))
    settings.first_unprivileged_port = static_cast<uint16_t>(*port);

  std::ifstream range(folder + "/net/ipv4/ip_local_port_range");
  const auto first = number_in(range, 1, UINT16_MAX);
  const auto last = number_in(range, first.value_or(1), UINT16_MAX);
  if (first && last) {
    settings.first_ephemeral_port = static_cast<uint16_t>(*first);
    settings.last_ephemeral_port = static_cast<uint16_t>(*last);
  }

  std::ifstream ipv6_only(folder + "/net/ipv6/bindv6only");
  settings.ipv6_only = number_in(ipv6_only, 0, 1) == 1;
  std::ifstream backlog(folder + "/net/rdma_ucm/max_backlog");
  settings.max_rdma_backlog = number_in(backlog, 1, INT32_MAX).value_or(settings.max_rdma_backlog);
  return settings;
}

}  // namespace verbatim::host
