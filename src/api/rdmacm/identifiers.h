// Identifiers, and what of them programs read in struct rdma_cm_id. Errors are those of the command (cm/manager.h).
#pragma once

#include "api/rdmacm/objects.h"
#include "base/result.h"
#include "cm/manager.h"

namespace verbatim::api {

// Not known to the agent yet; shares its channel with others.
std::unique_ptr<IdObject> make_id(rdma_event_channel* channel, void* context, rdma_port_space space,
                                  ibv_qp_type qp_type);

// EINVAL: not one of the port spaces, or a type that the space does not have. `channel` null: synchronous.
Result<IdObject*> create_id(rdma_event_channel* channel, void* context, rdma_port_space space,
                            std::optional<ibv_qp_type> qp_type);

// Waits until each of its events that was taken is acknowledged. From then on it is no more.
Status destroy_id(IdObject& id);

// `channel` null: makes it synchronous. EINVAL: it is.
Status migrate_id(IdObject& id, rdma_event_channel* channel);

// Asks the manager for the view of the identifier, and shows it.
Status refresh(IdObject& id);
// Makes base say what the manager has said: addresses, device, path.
void show(const cm::IdView& view, IdObject& id);

Status resolve_address(IdObject& id, const sockaddr* source, const sockaddr* destination, int timeout_ms);
Status resolve_route(IdObject& id);
Status bind_address(IdObject& id, const sockaddr* source);

}  // namespace verbatim::api
