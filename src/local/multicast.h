// Who receives what is sent to a multicast group on this host: each process shows the attachments of its own queue
// pairs in its segment, and a sender reads those of every process it knows. It knows them all once it has asked for
// them (PeerTable::want_everyone) and PeerTable::has_everyone(). Who attaches waits until they all know its process, a
// second at most, so that a message that is sent after it said so does not miss it.
#pragma once

#include <memory>
#include <vector>

#include "local/peer_table.h"

namespace verbatim::local {

struct GroupMember {
  std::shared_ptr<Peer> peer;
  Qpn qpn;
};

// The live ones, those of this process first. The sender's own queue pair is among them when it is attached: a NIC
// returns it its own messages too, unless it was made with IBV_QP_CREATE_BLOCK_SELF_MCAST_LB. Any thread.
std::vector<GroupMember> group_members(PeerTable& peers, const Gid& group);

}  // namespace verbatim::local
