// The queue pairs of identifiers: made, and led through their states as rdma_cm(7) says.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "api/rdmacm/objects.h"
#include "base/result.h"
#include "cm/manager.h"

namespace verbatim::api {

struct Transition {
  ibv_qp_attr attributes{};
  int mask = 0;
};

// rdma_init_qp_attr(3). EADDRNOTAVAIL: our address of the path is the device's no longer.
Result<Transition> transition_to(ibv_qp_state state, const IdObject& id);

// rdma_create_qp_ex(3), and its completion queues where it brings none.
Status create_queue_pair(IdObject& id, ibv_qp_init_attr_ex& attributes);
Status create_queue_pair(IdObject& id, ibv_pd* domain, ibv_qp_init_attr& attributes);
void destroy_queue_pair(IdObject& id);
// rdma_create_srq_ex(3).
Status create_shared_receive_queue(IdObject& id, ibv_srq_init_attr_ex& attributes);
void destroy_shared_receive_queue(IdObject& id);

// How many reads and atomics may be in flight: from the peer, and to it.
struct Depths {
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
};
// From INIT to RTS. Without `own`: as deep as the peer has answered.
Status connect_queue_pair(IdObject& id, std::optional<Depths> own);
// To ERR, if there is one and it has a peer of its own.
void fail_queue_pair(const IdObject& id);

// At the event that says so.
Status attach(const IdObject& id, MembershipObject& membership, const Gid& group);
void detach(MembershipObject& membership);

}  // namespace verbatim::api
