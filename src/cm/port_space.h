// The ports of RDMA CM: who has bound which, and who listens to a request. They are no ports of TCP or UDP.
//
// The rules are those of Linux (drivers/infiniband/core/cma.c), where they differ from those of sockets too: against a
// wildcard address the error is EADDRNOTAVAIL, against the same address EADDRINUSE; a port that was given out for 0 may
// be shared by those who speak with different destinations. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cm/address.h"
#include "cm/handles.h"

namespace verbatim::cm {

// With the numbers of enum rdma_port_space, which also stand in service IDs (IBTA annex A11.2).
enum class PortSpace : uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

struct PortRules {
  uint16_t first_unprivileged = 1024;  // net.ipv4.ip_unprivileged_port_start
  uint16_t first_ephemeral = 32768;    // net.ipv4.ip_local_port_range
  uint16_t last_ephemeral = 60999;
};

// What someone wants to bind, or has bound.
struct Binding {
  PortSpace space = PortSpace::tcp;
  Address source;       // port 0: any
  Address destination;  // Family::none as long as there is none
  bool reuse_address = false;
  bool family_only = false;  // of a wildcard: IPv6 without IPv4
  bool listening = false;
};

class PortTable {
 public:
  explicit PortTable(const PortRules& rules) : rules_(rules) {}

  // The port. EACCES: it takes a privilege. EADDRINUSE, EADDRNOTAVAIL: somebody has it, or all are taken. `random`:
  // where the search for any begins.
  Result<uint16_t> bind(IdHandle who, const Binding& binding, bool privileged, uint32_t random);
  void release(IdHandle who);
  // Of who is bound. EADDRINUSE, EADDRNOTAVAIL: an address shared by SO_REUSEADDR has one listener.
  Status listen(IdHandle who);
  void set_destination(IdHandle who, const Address& destination) { bound_.at(who).destination = destination; }
  // Options of who is not bound yet are in the Binding.
  void set_reuse_address(IdHandle who, bool reuse);
  void set_family_only(IdHandle who, bool only);

  // Who listens to requests for this address and port: the specific address before the wildcard.
  std::optional<IdHandle> listener(PortSpace space, const Address& destination) const;
  // Does anybody listen at this port, at whatever address?
  bool has_listener(PortSpace space, uint16_t port) const;
  size_t size() const { return bound_.size(); }

 private:
  struct Port {
    PortSpace space;
    uint16_t number;
    auto operator<=>(const Port&) const = default;
  };

  Result<uint16_t> bind_any(IdHandle who, const Binding& binding, uint32_t random);
  Result<uint16_t> add(IdHandle who, const Binding& binding, uint16_t port);
  bool is_free_for(const Binding& binding, uint16_t port) const;
  Status check(IdHandle who, const Binding& binding, bool reuse) const;

  PortRules rules_;
  std::map<Port, std::vector<IdHandle>> owners_;
  std::map<IdHandle, Binding> bound_;
  uint16_t last_given_ = 0;  // not given out again at once
};

}  // namespace verbatim::cm
