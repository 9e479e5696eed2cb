// Connections: rdma_connect(3), rdma_accept(3) and their companions, and the lookup of datagram services, which is done
// by the same calls. Errors are those of the command (cm/manager.h).
#pragma once

#include <cstddef>

#include "api/rdmacm/objects.h"
#include "base/result.h"
#include "wire/cm_message.h"

namespace verbatim::api {

// EINVAL: more resources than the device has, or nothing that says which queue pair connects.
Status connect(IdObject& id, const rdma_conn_param* parameters);
Status accept(IdObject& id, const rdma_conn_param* parameters);
Status listen(IdObject& id, int backlog);
Status reject(IdObject& id, wire::RejectReason reason, const void* private_data, size_t length);
Status disconnect(IdObject& id);

}  // namespace verbatim::api
