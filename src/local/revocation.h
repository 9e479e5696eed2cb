// The revoker's half of touch_record.h: after a region or a queue pair was withdrawn or narrowed in the adapter's
// segment, waits until no process is still acting on what it was before.
#pragma once

#include "base/time.h"
#include "local/adapter.h"
#include "local/peer_table.h"

namespace verbatim::local {

// Returns when nothing that was permitted by the region's entry before it was withdrawn can still land, here (as the
// local side of an operation) or by a peer. Blocks for the slices under way; for a peer that is stopped inside one, as
// long as any thread of it lives (Peer::gone()): a line says whom after 100 ms.
void settle_region(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key);
// The same of a memory window, which is never the local side of an operation.
void settle_window(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key);
void settle_queue_pair(Adapter& adapter, PeerTable& peers, const Clock& clock, Qpn qpn);

// The wait for those who hold what others need meanwhile, and so look now and again instead of blocking.
class Revocation {
 public:
  // Nothing to wait for.
  Revocation() = default;
  // settle_window's.
  static Revocation of_window(Adapter& adapter, PeerTable& peers, MemoryKey key);

  bool is_over();

 private:
  struct Touch {
    std::shared_ptr<Peer> by;
    OngoingTouch touch;
  };
  std::vector<Touch> touches_;
};

}  // namespace verbatim::local
