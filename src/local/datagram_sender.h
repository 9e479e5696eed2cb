// UD messages to queue pairs of this host: posted to the lane of the process that owns the target, or of every process
// that has attached to the group, with the header that a receiver finds before the data. Nobody answers. Not
// thread-safe: used under the lock of its queue pair. Never blocks.
#pragma once

#include <set>

#include "local/local_endpoint.h"

namespace verbatim::local {

class DatagramSender {
 public:
  DatagramSender(Adapter& adapter, PeerTable& peers, Lanes& lanes) : adapter_(adapter), peers_(peers), lanes_(lanes) {}

  // done: in the lane. waiting: the target's process is not known yet. full: its lane is. failed: an SGE is bad, or
  // nobody is there to take it (Reason::dropped_no_peer). Fails with no_agent when nobody can introduce the target.
  // `own_qkey` is used where the request's is a privileged one (its highest bit is set; IBTA 10.2.5).
  Advance post(const SendWork& work, Qpn own, uint32_t own_qkey, PdId pd, Verdict& verdict);
  // The target's process was waited for in vain: messages to it are not held up again, and lost until it has shown
  // itself.
  void give_up(Qpn target) { met_.insert(target.slot()); }

 private:
  struct Receiver {
    std::shared_ptr<LanePair> lanes;
    Qpn qpn;
  };
  // Fills receivers_; other than done, and the verdict, when there are none (yet).
  Advance receivers(const DatagramTarget& to, Verdict& verdict);
  std::shared_ptr<LanePair> lanes_to(Qpn target, Advance& outcome, Verdict& verdict);

  Adapter& adapter_;
  PeerTable& peers_;
  Lanes& lanes_;
  // The last target's process, so that a stream of datagrams looks it up once.
  Slot last_slot_;
  std::shared_ptr<LanePair> last_;
  // Whose owner was sent to, or waited for in vain: when there is none (any more), that holds up nothing.
  std::set<Slot> met_;
  KnownRegion own_region_;           // of the last SGE
  std::vector<Receiver> receivers_;  // of the message being posted; kept for its memory
};

}  // namespace verbatim::local
