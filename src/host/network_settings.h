// What an administrator has set for ports, as /proc/sys says (sysctl(8)); what cannot be read has Linux' own default.
// Plain values; the call is thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace verbatim::host {

struct NetworkSettings {
  uint16_t first_unprivileged_port = 1024;  // net.ipv4.ip_unprivileged_port_start
  uint16_t first_ephemeral_port = 32768;    // net.ipv4.ip_local_port_range
  uint16_t last_ephemeral_port = 60999;
  bool ipv6_only = false;       // net.ipv6.bindv6only
  int max_rdma_backlog = 1024;  // net.rdma_ucm.max_backlog, where that module is loaded
};

// `folder`: another than /proc/sys, for tests.
NetworkSettings network_settings(const std::string& folder = "/proc/sys");

}  // namespace verbatim::host
