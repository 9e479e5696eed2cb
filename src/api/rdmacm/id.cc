// Identifiers and addresses: rdma_create_id(3), rdma_bind_addr(3), rdma_resolve_addr(3) and their companions.
#include <netinet/in.h>

#include "api/rdmacm/events.h"
#include "api/rdmacm/identifiers.h"
#include "base/export.h"
#include "base/no_cancellation.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

__be16 port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(address).sin_port;
  if (address.ss_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  return 0;
}

}  // namespace

VERBATIM_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  return answer([&]() -> Status {
    const NoCancellation guard;
    if (!id) return {EINVAL};
    const Result<IdObject*> created = create_id(channel, context, space, std::nullopt);
    if (created.ok()) *id = &created.value()->base;
    return created.status();
  });
}

VERBATIM_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  return answer([&] { return destroy_id(object_of(id)); });
}

VERBATIM_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return answer([&] { return migrate_id(object_of(id), channel); });
}

VERBATIM_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return answer([&] { return bind_address(object_of(id), address); });
}

VERBATIM_EXPORT int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) {
  return answer([&] { return resolve_address(object_of(id), source, destination, timeout_ms); });
}

// The way within a host is known at once, whatever the timeout.
VERBATIM_EXPORT int rdma_resolve_route(rdma_cm_id* id, int) {
  return answer([&] { return resolve_route(object_of(id)); });
}

VERBATIM_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(id->route.addr.src_storage); }

VERBATIM_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) { return port_of(id->route.addr.dst_storage); }
