#include "model/multicast.h"

#include <cerrno>

#include "model/introduction_error.h"

namespace verbatim::model {
namespace {

bool may_be_attached(QueuePairType type, const Gid& group) { return type == QueuePairType::ud && group.is_multicast(); }

}  // namespace

Status attach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group) {
  if (!may_be_attached(type, group)) return {EINVAL};
  // Who sends asks the agent for all of its members, so we must be one.
  if (const Status wanted = device.peers().want_everyone(); !wanted.ok()) return introduction_error(wanted);
  return device.adapter().attach(qpn, group);
}

Status detach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group) {
  return may_be_attached(type, group) ? device.adapter().detach(qpn, group) : Status{EINVAL};
}

}  // namespace verbatim::model
