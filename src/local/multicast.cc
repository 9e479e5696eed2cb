#include "local/multicast.h"

namespace verbatim::local {

std::vector<GroupMember> group_members(PeerTable& peers, const Gid& group) {
  std::vector<GroupMember> members;
  for (const std::shared_ptr<Peer>& peer : peers.everyone()) {
    if (peer->dead()) continue;
    for (const Qpn qpn : peer->view().attached_to(group)) members.push_back({peer, qpn});
  }
  return members;
}

}  // namespace verbatim::local
