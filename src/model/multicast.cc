#include "model/multicast.h"

#include <cerrno>

#include "base/log.h"
#include "model/introduction_error.h"

namespace verbatim::model {
namespace {

bool may_be_attached(QueuePairType type, const Gid& group) { return type == QueuePairType::ud && group.is_multicast(); }

}  // namespace

Status attach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group) {
  if (!may_be_attached(type, group)) return {EINVAL};
  // Who sends asks the agent for all of its members, so we must be one, and known to those who asked before.
  if (const Status wanted = device.peers().want_everyone(); !wanted.ok()) return introduction_error(wanted);
  if (!device.peers().await_everyone(kAgentPatience))
    log(LogLevel::warn, "the agent does not answer: who sends to {} now may miss QP {:#08x}", group.text(), qpn.value);
  return device.adapter().attach(qpn, group);
}

Status detach_multicast(Device& device, QueuePairType type, Qpn qpn, const Gid& group) {
  return may_be_attached(type, group) ? device.adapter().detach(qpn, group) : Status{EINVAL};
}

}  // namespace verbatim::model
