// rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3).
#include <algorithm>

#include "api/rdmacm/convert_address.h"
#include "api/rdmacm/events.h"
#include "api/rdmacm/queue_pairs.h"
#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

Status join(IdObject& id, const sockaddr* group, bool receives, void* context) {
  const std::optional<cm::Address> address = from_c(group);
  if (!address) return {EINVAL};
  {
    // The event may be taken before the answer is here: it waits until the membership is known.
    const std::lock_guard lock(id.mutex);
    MembershipObject& membership = id.memberships.emplace_back();
    const Result<cm::MembershipHandle> joined = id.channel().call(commands::Join{id.handle, *address});
    if (!joined.ok()) {
      id.memberships.pop_back();
      return joined.status();
    }
    membership.handle = joined.value();
    membership.group = *address;
    membership.context = context;
    membership.receives = receives;
  }
  return complete(id);
}

// The one that is left is no longer found by events, so that what was shown of it is what it waits for.
Status leave(IdObject& id, const sockaddr* group) {
  const std::optional<cm::Address> address = from_c(group);
  if (!address) return {EINVAL};
  std::list<MembershipObject> left;
  {
    const std::lock_guard lock(id.mutex);
    const auto found = std::ranges::find(id.memberships, *address, &MembershipObject::group);
    if (found == id.memberships.end()) return {EADDRNOTAVAIL};
    left.splice(left.end(), id.memberships, found);
  }
  MembershipObject& membership = left.front();
  const Result<commands::Ended> ended =
      id.channel().call(commands::Leave{.membership = membership.handle,
                                        .channel = id.channel().handle(),
                                        .received = membership.acknowledgements.shown()});
  if (id.is_synchronous()) acknowledge_last(id);
  membership.acknowledgements.await(0);
  detach(membership);
  return ended.status();
}

}  // namespace

VERBATIM_EXPORT int rdma_join_multicast(rdma_cm_id* id, sockaddr* group, void* context) {
  return answer([&] { return group ? join(object_of(id), group, true, context) : Status{EINVAL}; });
}

VERBATIM_EXPORT int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes, void* context) {
  return answer([&]() -> Status {
    constexpr uint32_t kKnown = RDMA_CM_JOIN_MC_ATTR_RESERVED - 1;
    if (!attributes) return {EINVAL};
    if (attributes->comp_mask & ~kKnown) return {EOPNOTSUPP};
    if (attributes->comp_mask != kKnown || !attributes->addr) return {EINVAL};
    if (attributes->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return {EINVAL};
    return join(object_of(id), attributes->addr, attributes->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
  });
}

VERBATIM_EXPORT int rdma_leave_multicast(rdma_cm_id* id, sockaddr* group) {
  return answer([&] { return group ? leave(object_of(id), group) : Status{EINVAL}; });
}
