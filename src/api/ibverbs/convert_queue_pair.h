// What modifies and describes a queue pair, between the structs of verbs.h and the values of model/. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "model/queue_pair.h"

namespace verbatim::api {

model::QueuePairCapabilities from_c(const ibv_qp_cap& cap);
ibv_qp_cap to_c(const model::QueuePairCapabilities& capabilities);

// Port, path and GRH of a connected queue pair or of an address handle.
model::AddressVector from_c(const ibv_ah_attr& address);
ibv_ah_attr to_c(const model::AddressVector& address);

// Without capabilities and alternate path.
model::QueuePairAttributes from_c(const ibv_qp_attr& attr);
// The alternate path is zero: the device has no path migration.
ibv_qp_attr to_c(const model::QueuePairAttributes& attributes, const model::QueuePairCapabilities& capabilities);

}  // namespace verbatim::api
