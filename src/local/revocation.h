// The revoker's half of touch_record.h: after a region or a queue pair was withdrawn or narrowed in the adapter's
// segment, waits until no process is still acting on what it was before.
//
// A peer that is put off its processor in the middle of a touch, because it is stopped or starved, is waited for
// 100 ms: then a line in the log names it, and the wait is over as soon as it is certain that the peer's thread has
// been interrupted since, for then it turns back. Only who cannot be told of interruptions, or is traced within a
// system call, is waited for as long as any thread of it lives (Peer::gone()).
#pragma once

#include <optional>

#include "base/time.h"
#include "local/adapter.h"
#include "local/peer_table.h"
#include "local/thread_state.h"

namespace verbatim::local {

// Returns when nothing that was permitted by the region's entry before it was withdrawn can still land, here (as the
// local side of an operation) or by a peer. Blocks for the slices under way.
void settle_region(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key);
// The same of a memory window, which is never the local side of an operation.
void settle_window(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key);
void settle_queue_pair(Adapter& adapter, PeerTable& peers, const Clock& clock, Qpn qpn);

// The wait for one touch.
class TouchWait {
 public:
  // `begun`: when the revocation began to wait, which may be for others first. `clock` outlives it.
  TouchWait(const OngoingTouch& touch, Instant begun, const Clock& clock)
      : touch_(touch), clock_(&clock), begun_(begun) {}

  // Asked again and again until it is true. `by` is the process whose touch it is.
  bool is_over(const Peer& by);

 private:
  bool is_certain_to_turn_back(const Peer& by);

  OngoingTouch touch_;
  const Clock* clock_;
  Instant begun_;
  bool said_ = false;
  Instant looked_;
  // As it was when first and last looked at.
  std::optional<ThreadState> first_;
  ThreadState last_;
};

// The wait for those who hold what others need meanwhile, and so look now and again instead of blocking.
class Revocation {
 public:
  // Nothing to wait for.
  Revocation() = default;
  // settle_window's.
  static Revocation of_window(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key);

  bool is_over();

 private:
  struct Touch {
    std::shared_ptr<Peer> by;
    TouchWait wait;
  };
  std::vector<Touch> touches_;
};

}  // namespace verbatim::local
