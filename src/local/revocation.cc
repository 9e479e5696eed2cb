#include "local/revocation.h"

#include "base/log.h"

namespace verbatim::local {
namespace {

constexpr Duration kPatience = Duration::milliseconds(100);

// Allocates nothing itself, as it belongs to freeing: std::ref instead of what a std::function would copy.
template <class Matches>
void settle(Adapter& adapter, PeerTable& peers, const Clock& clock, const Matches& matches) {
  const PeerList everyone = peers.everyone();
  heavy_fence(adapter.view().revokes_by_membarrier());
  for (const std::shared_ptr<Peer>& peer : everyone) {
    const Instant start = clock.now();
    bool said = false;
    const auto touches = [&](TouchTarget target) { return matches(*peer, target); };
    const auto give_up = [&] {
      if (!said && clock.now() - start > kPatience) {
        said = true;
        log(LogLevel::warn, "waiting for process {}, which is in the middle of an operation on memory being revoked",
            peer->pid());
      }
      return peer->gone();
    };
    wait_for_touches(peer->view().touch_records(), std::ref(touches), std::ref(give_up));
  }
}

auto through_window(const Adapter& adapter, MemoryKey key) {
  return [&adapter, entry = adapter.view().entry_index(key)](TouchTarget target) {
    return target.region_entry == entry && adapter.owns(target.qpn.slot());
  };
}

}  // namespace

void settle_region(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key) {
  const uint32_t entry = adapter.view().entry_index(key);
  settle(adapter, peers, clock, [&](const Peer& peer, TouchTarget target) {
    // Our own operations use the region as their local side too, and do not say which.
    return peer.is_self() || (target.region_entry == entry && adapter.owns(target.qpn.slot()));
  });
}

void settle_window(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key) {
  settle(adapter, peers, clock,
         [matches = through_window(adapter, key)](const Peer&, TouchTarget target) { return matches(target); });
}

void settle_queue_pair(Adapter& adapter, PeerTable& peers, const Clock& clock, Qpn qpn) {
  settle(adapter, peers, clock, [&](const Peer&, TouchTarget target) { return target.qpn == qpn; });
}

Revocation Revocation::of_window(Adapter& adapter, PeerTable& peers, MemoryKey key) {
  Revocation revocation;
  const PeerList everyone = peers.everyone();
  heavy_fence(adapter.view().revokes_by_membarrier());
  for (const std::shared_ptr<Peer>& peer : everyone)
    for (const OngoingTouch& touch : ongoing_touches(peer->view().touch_records(), through_window(adapter, key)))
      revocation.touches_.push_back({peer, touch});
  return revocation;
}

bool Revocation::is_over() {
  std::erase_if(touches_, [](const Touch& one) { return one.touch.has_moved_on() || one.by->gone(); });
  return touches_.empty();
}

}  // namespace verbatim::local
