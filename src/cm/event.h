// What happens to an identifier: struct rdma_cm_event. Plain values.
#pragma once

#include <cstdint>

#include "cm/handles.h"
#include "cm/parameters.h"

namespace verbatim::cm {

// With the numbers of enum rdma_cm_event_type.
enum class EventType : uint8_t {
  addr_resolved = 0,
  addr_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  device_removal = 11,
  multicast_join = 12,
  multicast_error = 13,
  addr_change = 14,
  timewait_exit = 15,
};

struct Event {
  EventType type = EventType::addr_resolved;
  IdHandle id;
  uint64_t context = 0;          // of the identifier; of the membership in multicast events
  IdHandle listener;             // connect_request: who listened; `id` is new, and `context` the listener's
  int status = 0;                // 0, -errno, the reason of a REJ, or the status of a SIDR_REP
  ConnectParameters connection;  // connect_request, connect_response
  DatagramTarget datagram;       // multicast_join, and established of an identifier for datagrams
  PrivateData private_data;
  Ece ece;
  MembershipHandle membership;  // multicast events
};

}  // namespace verbatim::cm
