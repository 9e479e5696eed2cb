#include "cm/connection_table.h"

namespace verbatim::cm {

ConnectionEntry& ConnectionTable::add(IdHandle id, Connection connection) {
  const wire::CommunicationId local_id = connection.local_id();
  Indexed& added = entries_.insert({local_id, Indexed{{std::move(connection), id}, {}, {}}}).first->second;
  update(added.entry);
  return added.entry;
}

ConnectionEntry* ConnectionTable::find(wire::CommunicationId local_id) {
  const auto found = entries_.find(local_id);
  return found == entries_.end() ? nullptr : &found->second.entry;
}

const ConnectionEntry* ConnectionTable::find(wire::CommunicationId local_id) const {
  const auto found = entries_.find(local_id);
  return found == entries_.end() ? nullptr : &found->second.entry;
}

ConnectionEntry* ConnectionTable::find_by_peer(uint64_t remote_ca_guid, wire::CommunicationId remote_id) {
  const auto found = by_peer_.find({remote_ca_guid, remote_id});
  return found == by_peer_.end() ? nullptr : find(found->second);
}

ConnectionEntry* ConnectionTable::find_stale(uint64_t remote_ca_guid, Qpn remote_qpn) {
  const auto found = by_peer_qp_.find({remote_ca_guid, remote_qpn});
  return found == by_peer_qp_.end() ? nullptr : find(found->second);
}

void ConnectionTable::update(ConnectionEntry& entry) {
  const Connection& connection = entry.connection;
  const wire::CommunicationId local_id = connection.local_id();
  const auto found = entries_.find(local_id);
  const bool is_idle = connection.state() == ConnectionState::idle;
  std::optional<Peer> peer;
  if (connection.knows_peer() && !is_idle) peer = Peer{connection.remote_ca_guid(), connection.remote_id()};
  std::optional<PeerQp> peer_qp;
  if (connection.occupies_remote_qp()) peer_qp = PeerQp{connection.remote_ca_guid(), connection.qp().remote_qpn};
  index(by_peer_, found->second.peer, peer, local_id);
  index(by_peer_qp_, found->second.peer_qp, peer_qp, local_id);
  deadlines_.set(local_id, connection.deadline());
  if (is_idle && !entry.id) entries_.erase(found);
}

// A newer connection may stand at the same place: it stays there.
template <class Key>
void ConnectionTable::index(std::map<Key, wire::CommunicationId>& map, std::optional<Key>& current,
                            const std::optional<Key>& wanted, wire::CommunicationId local_id) {
  if (current == wanted) return;
  if (current) {
    const auto found = map.find(*current);
    if (found != map.end() && found->second == local_id) map.erase(found);
  }
  if (wanted) map[*wanted] = local_id;
  current = wanted;
}

ConnectionEntry* ConnectionTable::pop_due(Instant now) {
  const std::optional<wire::CommunicationId> due = deadlines_.pop_due(now);
  return due ? find(*due) : nullptr;
}

}  // namespace verbatim::cm
