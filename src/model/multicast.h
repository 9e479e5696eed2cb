// Attaching UD queue pairs to multicast groups: ibv_attach_mcast(3). Who they are is in the adapter's segment, for the
// senders to see (local/multicast.h). Thread-safe.
#pragma once

#include "base/result.h"
#include "base/types.h"
#include "model/device.h"
#include "proto/work.h"

namespace verbatim::model {

// Success also when it is attached already. EINVAL: the queue pair is not a UD one, or the GID no group's. ENOMEM: no
// more attachments. EHOSTUNREACH: no sender of another process would hear of it, as there is no agent.
Status attach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group);
// EINVAL as above, and when it is not attached.
Status detach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group);

}  // namespace verbatim::model
