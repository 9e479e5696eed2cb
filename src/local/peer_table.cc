#include "local/peer_table.h"

#include <chrono>
#include <new>
#include <utility>

#include "base/no_cancellation.h"

namespace verbatim::local {
namespace {

PeerList just(const std::shared_ptr<Peer>& peer) {
  return PeerList(std::make_shared<const PeerList::Peers>(PeerList::Peers{peer}));
}

}  // namespace

PeerTable::PeerTable(std::shared_ptr<Peer> self, std::function<bool(Slot)> is_own, Introducer& introducer)
    : self_(std::move(self)), is_own_(std::move(is_own)), introducer_(introducer), known_(just(self_)) {}

std::shared_ptr<Peer> PeerTable::find(Slot slot) const {
  if (is_own_(slot)) return self_;
  std::lock_guard lock(mutex_);
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end() || found->second->dead()) return nullptr;
  return found->second;
}

std::shared_ptr<Peer> PeerTable::owner(Slot slot) const {
  if (is_own_(slot)) return self_;
  std::lock_guard lock(mutex_);
  const auto found = by_slot_.find(slot);
  return found == by_slot_.end() ? nullptr : found->second;
}

bool PeerTable::was_last_owner(Slot slot, const Peer& peer) const {
  if (is_own_(slot)) return &peer == self_.get();
  std::lock_guard lock(mutex_);
  const auto found = last_owners_.find(slot);
  return found != last_owners_.end() && found->second == peer.incarnation();
}

bool PeerTable::has_ended(Slot slot) const {
  std::lock_guard lock(mutex_);
  return ended_.contains(slot);
}

Status PeerTable::want(Slot slot) {
  bool had_ended;
  {
    std::lock_guard lock(mutex_);
    had_ended = ended_.erase(slot) != 0;
  }
  const Status asked = ask_again(slot);
  if (asked.ok() || !had_ended) return asked;
  std::lock_guard lock(mutex_);
  ended_.insert(slot);
  return asked;
}

// Programs may name any queue pair number; whose slot nobody can have is not asked for.
Status PeerTable::ask_again(Slot slot) {
  if (!is_given_out(slot)) return Status::success();
  if (!is_own_(slot)) {
    std::lock_guard lock(mutex_);
    const auto found = by_slot_.find(slot);
    if (found != by_slot_.end() && !found->second->dead()) return Status::success();
    asked_.insert(slot);
  }
  const Status asked = introducer_.introduce(slot);
  if (asked.ok()) return asked;
  std::lock_guard lock(mutex_);
  asked_.erase(slot);
  return asked;
}

bool PeerTable::awaits_answer(Slot slot) const {
  std::lock_guard lock(mutex_);
  return asked_.contains(slot);
}

Status PeerTable::want_everyone() {
  bool had_asked;
  {
    std::lock_guard lock(mutex_);
    had_asked = std::exchange(asked_for_everyone_, true);
  }
  const Status asked = introducer_.introduce_everyone();
  if (asked.ok()) return asked;
  std::lock_guard lock(mutex_);
  asked_for_everyone_ = had_asked;
  return asked;
}

// Known before it is found: whoever can be sent to is waited for by everyone() even if memory ends in between.
void PeerTable::add(std::shared_ptr<Peer> peer, const std::vector<Slot>& slots, bool knows_us) {
  std::lock_guard lock(mutex_);
  PeerList known = without(peer->incarnation(), peer);
  peers_[peer->incarnation()] = peer;
  known_ = std::move(known);
  for (Slot slot : slots) {
    if (knows_us)
      show(peer, slot);
    else
      last_owners_[slot] = peer->incarnation();
  }
  generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
}

PeerList PeerTable::without(Incarnation incarnation, const std::shared_ptr<Peer>& instead) const {
  auto peers = std::make_shared<PeerList::Peers>();
  peers->reserve(2 + peers_.size());
  for (const std::shared_ptr<Peer>& peer : known_)
    if (peer->incarnation() != incarnation) peers->push_back(peer);
  if (instead) peers->push_back(instead);
  return PeerList(std::move(peers));
}

void PeerTable::add_slot(Incarnation incarnation, Slot slot) {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(incarnation);
  if (found == peers_.end()) return;
  show(found->second, slot);
  generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
}

void PeerTable::show(const std::shared_ptr<Peer>& owner, Slot slot) {
  by_slot_[slot] = owner;
  last_owners_[slot] = owner->incarnation();
  ended_.erase(slot);
  asked_.erase(slot);
}

void PeerTable::nobody_owns(Slot slot) {
  std::lock_guard lock(mutex_);
  asked_.erase(slot);
}

std::shared_ptr<Peer> PeerTable::mark_dead(Incarnation incarnation) {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(incarnation);
  if (found == peers_.end()) return nullptr;
  found->second->mark_dead();
  return found->second;
}

std::shared_ptr<Peer> PeerTable::remove(Incarnation incarnation) {
  std::vector<Slot> wanted;
  std::unique_lock lock(mutex_);
  const auto found = peers_.find(incarnation);
  if (found == peers_.end()) return nullptr;
  std::shared_ptr<Peer> peer = found->second;
  PeerList known = without(incarnation);
  for (const auto& [slot, owner] : by_slot_) {
    if (owner != peer) continue;
    ended_.insert(slot);
    // What was wanted anew, before anybody else knew of the end, was not asked for: it seemed to be known.
    if (asked_.contains(slot)) wanted.push_back(slot);
  }
  // What needs memory is done.
  known_ = std::move(known);
  peers_.erase(found);
  std::erase_if(by_slot_, [&](const auto& item) { return item.second == peer; });
  peer->mark_dead();
  generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
  lock.unlock();
  for (Slot slot : wanted)
    if (!introducer_.introduce(slot).ok()) nobody_owns(slot);
  return peer;
}

void PeerTable::everyone_is_known() {
  std::lock_guard lock(mutex_);
  has_everyone_.store(true, std::memory_order_release);  // pairs with has_everyone()
  everyone_came_.notify_all();
}

void PeerTable::nobody_answers() {
  std::lock_guard lock(mutex_);
  asked_.clear();
  asked_for_everyone_ = false;
  everyone_came_.notify_all();
}

bool PeerTable::awaits_everyone() const {
  std::lock_guard lock(mutex_);
  return asked_for_everyone_ && !has_everyone();
}

bool PeerTable::await_everyone(Duration patience) {
  const NoCancellation guard;
  std::unique_lock lock(mutex_);
  everyone_came_.wait_for(lock, std::chrono::nanoseconds(patience.ns),
                          [&] { return has_everyone() || !asked_for_everyone_; });
  return has_everyone();
}

PeerList PeerTable::everyone() {
  introducer_.refresh();
  return known();
}

PeerList PeerTable::known() const {
  std::lock_guard lock(mutex_);
  return known_;
}

bool PeerTable::knows(Incarnation incarnation) const {
  if (incarnation == self_->incarnation()) return true;
  std::lock_guard lock(mutex_);
  return peers_.contains(incarnation);
}

void PeerTable::abandon() {
  // What another thread held at the fork is held for ever, so neither the lock nor the maps can be used again.
  new (&mutex_) std::mutex;
  new (&everyone_came_) std::condition_variable;
  new (&by_slot_) std::map<Slot, std::shared_ptr<Peer>>;
  new (&peers_) std::map<Incarnation, std::shared_ptr<Peer>>;
  new (&last_owners_) std::map<Slot, Incarnation>;
  new (&ended_) std::set<Slot>;
  new (&asked_) std::set<Slot>;
  new (&known_) PeerList(just(self_));
  asked_for_everyone_ = false;
  has_everyone_.store(false, std::memory_order_relaxed);
}

}  // namespace verbatim::local
