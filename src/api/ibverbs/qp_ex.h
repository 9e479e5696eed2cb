// What ibv_create_qp_ex(3) adds to a queue pair that is to be posted to by ibv_wr_*(3).
#pragma once

#include "api/ibverbs/objects.h"

namespace verbatim::api {

// EOPNOTSUPP: an operation that a queue pair of this type does not have. `operations`: IBV_QP_EX_WITH_…
Status check_builders(QueuePairType type, uint64_t operations);
// The builders of `operations`, all setters, and the batch they fill.
void install_builders(QpObject& object, QueuePairType type, uint64_t operations);

}  // namespace verbatim::api
