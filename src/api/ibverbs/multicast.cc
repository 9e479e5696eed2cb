// Multicast groups: ibv_attach_mcast(3). The LID is of no meaning on Ethernet and not looked at.
#include "model/multicast.h"

#include "api/ibverbs/convert_attributes.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

int attach(ibv_qp* qp, const ibv_gid* gid) {
  return model::attach_multicast(object_of(qp->context).device, static_cast<QueuePairType>(qp->qp_type), {qp->qp_num},
                                 from_c(*gid))
      .error;
}

}  // namespace

extern "C" {

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) { return or_no_memory<attach>(qp, gid); }

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return model::detach_multicast(object_of(qp->context).device, static_cast<QueuePairType>(qp->qp_type), {qp->qp_num},
                                 from_c(*gid))
      .error;
}

}  // extern "C"
