// The processes this one has been introduced to, by slot. Thread-safe; holds no lock while it calls out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/time.h"
#include "local/peer.h"

namespace verbatim::local {

// Peers as they were known at one moment; a copy allocates nothing.
class PeerList {
 public:
  using Peers = std::vector<std::shared_ptr<Peer>>;
  explicit PeerList(std::shared_ptr<const Peers> peers) : peers_(std::move(peers)) {}

  auto begin() const { return peers_->begin(); }
  auto end() const { return peers_->end(); }
  size_t size() const { return peers_->size(); }
  const std::shared_ptr<Peer>& operator[](size_t index) const { return (*peers_)[index]; }

 private:
  std::shared_ptr<const Peers> peers_;
};

class PeerTable {
 public:
  // `refresh` takes in introductions that have arrived but were not looked at; called by everyone().
  // `introduce` asks for the process that owns a slot, `introduce_everyone` for all there are and will be; the answer
  // comes later through add(), add_slot(), nobody_owns() and everyone_is_known(), or nobody_answers() for all that is
  // still to be answered. All from any thread.
  struct Introducer {
    virtual ~Introducer() = default;
    virtual void refresh() = 0;
    virtual Status introduce(Slot slot) = 0;
    virtual Status introduce_everyone() = 0;
    // Becomes known to those who will ask for this process.
    virtual Status appear() = 0;
  };

  // `self` owns `own_slots`, which may grow: asked each time.
  PeerTable(std::shared_ptr<Peer> self, std::function<bool(Slot)> is_own, Introducer& introducer);

  // The live process that owns the slot, or null when there is none that we know of.
  std::shared_ptr<Peer> find(Slot slot) const;
  // Whether the process that owned the slot when want() was last called for it has ended.
  bool has_ended(Slot slot) const;
  // Sees to it that find() will answer when the slot's owner is there. Fails when nobody can be introduced.
  Status want(Slot slot);
  // The same for a slot that is wanted already: its owner may have ended meanwhile, and still has when this returns.
  Status ask_again(Slot slot);
  // Whether it is still to be said who owns the slot, or that nobody does, since want() was last called for it.
  bool awaits_answer(Slot slot) const;
  // Sees to it that known() will have every process of the agent's, those that come later too. Fails as want() does.
  // Whoever is sent messages without having asked for their sender calls this first.
  Status appear() { return introducer_.appear(); }
  Status want_everyone();
  // Whether known() has had all those who were there when want_everyone() was first called. They know this process too.
  bool has_everyone() const { return has_everyone_.load(std::memory_order_acquire); }
  bool awaits_everyone() const;
  // Waits for that while there is an answer to wait for, `patience` at most; whether it is so. No cancellation point.
  bool await_everyone(Duration patience);

  // `knows_us`: it may be found by the slots from now on; else by those that add_slot() tells. What comes from any of
  // them is its.
  void add(std::shared_ptr<Peer> peer, const std::vector<Slot>& slots, bool knows_us = true);
  void add_slot(Incarnation incarnation, Slot slot);
  void nobody_owns(Slot slot);
  void everyone_is_known();
  void nobody_answers();
  // From now on its end is known; remove() follows. Null when unknown.
  std::shared_ptr<Peer> mark_dead(Incarnation incarnation);
  // Forgets it; endpoints that hold it see Peer::dead(). Returns it, or null when unknown.
  std::shared_ptr<Peer> remove(Incarnation incarnation);

  // Whom the agent says the slot belongs to, dead or alive; null while we were not told.
  std::shared_ptr<Peer> owner(Slot slot) const;
  // Whether it is the last that the slot belonged to, although it may have ended: what it sent before still counts.
  bool was_last_owner(Slot slot, const Peer& peer) const;

  const std::shared_ptr<Peer>& self() const { return self_; }
  // This process and every one that we know of, without a look for news.
  PeerList known() const;
  // Every process that may be touching our memory, this one first: nobody that was introduced to us before the call
  // is missing, because the agent tells us of a peer before it tells the peer of us.
  PeerList everyone();

  bool knows(Incarnation incarnation) const;

  // Changes when somebody comes or goes, or a slot is told of: was_last_owner() may have another answer.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }  // pairs with whoever adds to it

  // In the child of a fork: the others are strangers, and their memory is not mapped here any more.
  void abandon();

 private:
  // With mutex_ held.
  void show(const std::shared_ptr<Peer>& owner, Slot slot);
  // known_ without that one, and with the other instead if there is one. With mutex_ held.
  PeerList without(Incarnation incarnation, const std::shared_ptr<Peer>& instead = nullptr) const;

  const std::shared_ptr<Peer> self_;
  const std::function<bool(Slot)> is_own_;
  Introducer& introducer_;
  std::atomic<bool> has_everyone_{false};  // set with mutex_ held
  std::condition_variable everyone_came_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<Slot, std::shared_ptr<Peer>> by_slot_;
  std::map<Incarnation, std::shared_ptr<Peer>> peers_;
  std::map<Slot, Incarnation> last_owners_;
  std::set<Slot> ended_;
  std::set<Slot> asked_;  // for, and not answered
  bool asked_for_everyone_ = false;
  PeerList known_;  // self_ and peers_
  std::atomic<uint64_t> generation_{0};
};

}  // namespace verbatim::local
