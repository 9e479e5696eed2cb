// Multicast groups: ibv_attach_mcast(3). The LID is of no meaning on Ethernet and not looked at.
#include "model/multicast.h"

#include "api/ibverbs/convert_attributes.h"
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

extern "C" {

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return model::attach_multicast(object_of(qp->context).device, static_cast<QueuePairType>(qp->qp_type), {qp->qp_num},
                                 from_c(*gid))
      .error;
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return model::detach_multicast(object_of(qp->context).device, static_cast<QueuePairType>(qp->qp_type), {qp->qp_num},
                                 from_c(*gid))
      .error;
}

}  // extern "C"
