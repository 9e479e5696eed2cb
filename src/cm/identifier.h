// A communication identifier (rdma_cm_id) and which commands it allows.
//
//     idle ──bind──▶ bound ──listen──▶ listening ──(a request)──▶ a new identifier, connecting
//       └─resolve_address─▶ resolving_address ──▶ address_resolved ──resolve_route, set_path──▶ route_resolved
//                              │ addr_error                                                         │ connect
//                              └─▶ bound                                                            ▼
//                                                     disconnected ◀── connecting (and connected) ◀─┘
//
// After remove_device() there is device_removed, from anywhere that is bound to the device. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cm/address.h"
#include "cm/handles.h"
#include "cm/parameters.h"
#include "cm/port_space.h"

namespace verbatim::cm {

enum class IdState : uint8_t {
  idle,
  bound,
  resolving_address,
  address_resolved,
  route_resolved,
  connecting,  // until the connection ends
  disconnected,
  listening,
  device_removed,
};
inline constexpr IdState kLastIdState = IdState::device_removed;

enum class Command : uint8_t {
  bind,
  resolve_address,
  resolve_route,
  set_path,
  listen,
  connect,
  accept,
  establish,
  reject,
  disconnect,
  notify_established,
  join,
  set_family_only,
  stop_reusing_address,
};
inline constexpr Command kLastCommand = Command::stop_reusing_address;

// Success or EINVAL. Whether the connection allows it is the connection's to say.
Status check(Command command, IdState state);

struct Membership {
  MembershipHandle handle;
  Address group;
};

struct Identifier {
  IdHandle handle;
  Owner owner;
  Channel channel;
  PortSpace space = PortSpace::tcp;
  QpType qp_type = QpType::rc;
  uint64_t context = 0;
  IdState state = IdState::idle;

  Address source;
  Address destination;
  std::optional<uint32_t> interface_index;  // of the source: bound to the device
  bool reuse_address = false;
  std::optional<bool> family_only;  // as the program said
  std::optional<uint8_t> tos;
  std::optional<uint8_t> ack_timeout;
  std::optional<Path> path;
  uint8_t path_mtu = 0, path_rate = 0, hop_limit = 0;  // of the way to the destination, once it is resolved
  Psn starting_psn;                                    // of our connection, if there will be one

  size_t backlog = 0;                   // a listener: how many requests may be waiting
  std::vector<IdHandle> waiting;        // a listener: its requests of which the program has not said that it has them
  IdHandle waits_at;                    // such a request: its listener
  IdHandle listener;                    // a request whose event is not taken yet: who ends it by ending
  bool accepted = true;                 // a request: nothing is reported before the program has accepted it
  wire::CommunicationId communication;  // of the connection, or of the resolution of a service ID
  std::vector<Membership> memberships;

  bool is_for_datagrams() const { return qp_type == QpType::ud; }
};

}  // namespace verbatim::cm
