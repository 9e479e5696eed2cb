// Identifiers (rdma_create_id(3)) and endpoints (rdma_create_ep(3)) that are destroyed with what they have, and what
// programs do with them before they connect.
#pragma once

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <memory>

#include "conformance/rdmacm/support/socket_address.h"
#include "conformance/support/side.h"

namespace verbatim::conformance {

// 0, or the errno of a call that returned -1.
int error_of(int result);

struct DestroyIdentifier {
  void operator()(rdma_cm_id* id) const;
};
using CmIdHandle = std::unique_ptr<rdma_cm_id, DestroyIdentifier>;

struct DestroyEndpoint {
  void operator()(rdma_cm_id* id) const { rdma_destroy_ep(id); }
};
using EndpointHandle = std::unique_ptr<rdma_cm_id, DestroyEndpoint>;

// `channel`: null for one whose calls return when they are done. EXPECTs success.
CmIdHandle create_id(rdma_event_channel* channel, rdma_port_space space = RDMA_PS_TCP, void* context = nullptr);
// The errno.
int bind_to(rdma_cm_id* id, const SocketAddress& address);
int resolve_to(rdma_cm_id* id, const SocketAddress& destination);

inline SocketAddress local_address(rdma_cm_id* id) { return SocketAddress::of(rdma_get_local_addr(id)); }
inline SocketAddress peer_address(rdma_cm_id* id) { return SocketAddress::of(rdma_get_peer_addr(id)); }

// What a program without wishes says: no READs under way, and as many retries as there can be.
rdma_conn_param plain_parameters();
// The same for an identifier without a queue pair of its own. Each call names another queue pair, as real ones have
// numbers of their own.
rdma_conn_param parameters_of_foreign_queue_pair();

// With completion queues and channels that the library makes. EXPECTs success.
void create_queue_pair(rdma_cm_id* id, ibv_pd* pd = nullptr);
ibv_qp_init_attr plain_queue_pair(ibv_qp_type type);

// Sends `text`, which is short, from the one queue pair to the other by rdma_post_send(3) and waits for both
// completions. EXPECTs that it arrives. Both are of this process.
void expect_message(rdma_cm_id* from, rdma_cm_id* to, const std::string& text);

}  // namespace verbatim::conformance
