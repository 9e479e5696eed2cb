// All lanes of this process. Thread-safe; only one thread at a time has the turn to look into them, and the others need
// not wait for it: what it finds is found for all.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/spin_lock.h"
#include "local/lane_pair.h"
#include "local/peer_table.h"

namespace verbatim::local {

class Lanes {
 public:
  // What becomes of the messages that arrive. Called by the thread that has the turn, one call at a time.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Nothing while the request is not done with: the same one comes again at the next turn.
    virtual std::optional<ReplyFields> serve(const Request& request) = 0;
    virtual void deliver(const Awaiting& awaiting, const ReplyFields& reply) = 0;
  };

  Lanes(Adapter& adapter, PeerTable& peers) : adapter_(adapter), peers_(peers) {}

  // The lanes to a process; null when there are no more of them.
  std::shared_ptr<LanePair> to(const std::shared_ptr<Peer>& peer);

  enum class Turn {
    taken,  // somebody else has it
    idle,   // nothing had come
    busy,   // something was done, and there may be more
  };
  // Serves what has come, some of it, and wakes those who wait for the answers.
  Turn turn(Receiver& receiver);
  // A turn that waits for whoever has it. Not with a lock that the receiver takes.
  void take_turn(Receiver& receiver);
  // Runs `change` while nobody has the turn: so a receiver needs no lock for what it looks up.
  template <class Change>
  void between_turns(Change&& change) {
    std::lock_guard turn(turn_mutex_);
    change();
  }

  // Whether there may ever be something to do: this process or a peer has a lane.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }

  // In the child of a fork, whose parent they belong to.
  void abandon();

 private:
  // With the turn: whether anything was done.
  bool serve_once(Receiver& receiver);
  void look_for_peers();
  void refresh_pairs();
  void forget(Incarnation incarnation);

  Adapter& adapter_;
  PeerTable& peers_;
  std::atomic<bool> in_use_{false};

  SpinLock turn_mutex_;                           // guards what follows
  std::vector<std::shared_ptr<LanePair>> pairs_;  // a copy of all_, by those that have the turn
  uint64_t seen_pairs_ = 0;

  // Peers that have no lane to us yet, as far as we know, or none of ours was left for: looked at when they have made
  // lanes, or one of ours has become free.
  struct Stranger {
    std::shared_ptr<Peer> peer;
    uint64_t seen_changes = ~uint64_t{0};
    uint64_t seen_freed = 0;
  };
  std::vector<Stranger> strangers_;
  uint64_t seen_peers_ = ~uint64_t{0};

  std::mutex mutex_;  // guards what follows
  std::map<Incarnation, std::shared_ptr<LanePair>> all_;
  std::atomic<uint64_t> changes_{0};
};

}  // namespace verbatim::local
