// The connections of a manager: found by their own ID, by the peer's, and by the peer's queue pair; and who is due
// when.
//
// A connection may have no identifier any more: it stays until it has said goodbye and its time has passed. Not
// thread-safe.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "cm/connection.h"
#include "cm/deadlines.h"
#include "cm/handles.h"

namespace verbatim::cm {

struct ConnectionEntry {
  Connection connection;
  IdHandle id;  // none: nobody is told any more
};

class ConnectionTable {
 public:
  bool contains(wire::CommunicationId id) const { return entries_.contains(id); }
  ConnectionEntry& add(IdHandle id, Connection connection);
  // Null if there is none.
  ConnectionEntry* find(wire::CommunicationId local_id);
  const ConnectionEntry* find(wire::CommunicationId local_id) const;
  ConnectionEntry* find_by_peer(uint64_t remote_ca_guid, wire::CommunicationId remote_id);
  // One that the peer would have to have forgotten to use the queue pair for another.
  ConnectionEntry* find_stale(uint64_t remote_ca_guid, Qpn remote_qpn);
  // To be called after each step: brings what is known of the connection up to date. One that is idle and has no
  // identifier is gone afterwards.
  void update(ConnectionEntry& entry);

  Instant next_deadline() const { return deadlines_.next(); }
  ConnectionEntry* pop_due(Instant now);
  size_t size() const { return entries_.size(); }

 private:
  using Peer = std::pair<uint64_t, wire::CommunicationId>;
  using PeerQp = std::pair<uint64_t, Qpn>;
  struct Indexed {
    ConnectionEntry entry;
    std::optional<Peer> peer;
    std::optional<PeerQp> peer_qp;
  };

  template <class Key>
  void index(std::map<Key, wire::CommunicationId>& map, std::optional<Key>& current, const std::optional<Key>& wanted,
             wire::CommunicationId local_id);

  std::map<wire::CommunicationId, Indexed> entries_;
  std::map<Peer, wire::CommunicationId> by_peer_;
  std::map<PeerQp, wire::CommunicationId> by_peer_qp_;
  Deadlines<wire::CommunicationId> deadlines_;
};

}  // namespace verbatim::cm
