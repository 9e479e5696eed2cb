#include "local/lanes.h"

#include <new>

#include "base/log.h"

namespace verbatim::local {
namespace {

// How many requests of one peer are served before the next one has its turn.
constexpr int kRequestsATurn = 32;

}  // namespace

std::shared_ptr<LanePair> Lanes::to(const std::shared_ptr<Peer>& peer) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<LanePair>& pair = all_[peer->incarnation()];
  if (pair) return pair;
  Result<std::unique_ptr<LanePair>> created = LanePair::create(adapter_, peer);
  if (!created.ok()) {
    log(LogLevel::warn, "no lane is left for process {}: this process exchanges messages with {} others", peer->pid(),
        kLanes);
    all_.erase(peer->incarnation());
    return nullptr;
  }
  pair = created.take();
  in_use_.store(true, std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_release);  // pairs with refresh_pairs()
  return pair;
}

void Lanes::look_for_peers() {
  if (const uint64_t generation = peers_.generation(); generation != seen_peers_) {
    seen_peers_ = generation;
    strangers_.clear();
    const PeerList known = peers_.known();
    std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Peer>& peer : known)
      if (!peer->is_self() && !all_.contains(peer->incarnation())) strangers_.push_back({peer});
  }
  std::erase_if(strangers_, [&](Stranger& stranger) {
    const uint64_t changes = stranger.peer->view().lane_changes();
    const uint64_t freed = adapter_.freed_lanes();
    if (changes == stranger.seen_changes && freed == stranger.seen_freed) return false;
    stranger.seen_changes = changes;
    stranger.seen_freed = freed;
    return stranger.peer->view().find_lane(adapter_.incarnation()) != nullptr && to(stranger.peer) != nullptr;
  });
}

Lanes::Turn Lanes::turn(Receiver& receiver) {
  std::unique_lock turn(turn_mutex_, std::try_to_lock);
  if (!turn.owns_lock()) return Turn::taken;
  return serve_once(receiver) ? Turn::busy : Turn::idle;
}

void Lanes::take_turn(Receiver& receiver) {
  std::lock_guard turn(turn_mutex_);
  serve_once(receiver);
}

void Lanes::refresh_pairs() {
  const uint64_t changes = changes_.load(std::memory_order_acquire);  // pairs with to()
  if (changes == seen_pairs_) return;
  seen_pairs_ = changes;
  std::lock_guard lock(mutex_);
  pairs_.clear();
  for (const auto& [incarnation, pair] : all_) pairs_.push_back(pair);
}

bool Lanes::serve_once(Receiver& receiver) {
  // Those that have ended leave their lanes to strangers.
  refresh_pairs();
  look_for_peers();
  refresh_pairs();
  bool busy = false;
  for (const std::shared_ptr<LanePair>& pair : pairs_) {
    // Asked before the last look. While the table knows it, it would be found again, with all that it ever sent.
    const bool ended = pair->peer()->dead() && !peers_.knows(pair->peer()->incarnation());
    pair->find_other_lane();
    const auto take_replies = [&] {
      return pair->take_replies(
          [&](const Awaiting& awaiting, const ReplyFields& reply) { receiver.deliver(awaiting, reply); });
    };
    bool active = take_replies();
    const auto serve = [&](const Request& request) {
      // A program that gets an answer to its message has been told before that the message arrived; some wait for the
      // two events in that order.
      active |= take_replies();
      return receiver.serve(request);
    };
    if (pair->take_requests(kRequestsATurn, serve)) {
      active = true;
      pair->peer()->wake();
    }
    busy |= active;
    // What a peer sent before it ended is served; then its lanes go.
    if (!active && ended) {
      forget(pair->peer()->incarnation());
      busy = true;
    }
  }
  return busy;
}

void Lanes::forget(Incarnation incarnation) {
  std::lock_guard lock(mutex_);
  all_.erase(incarnation);
  changes_.fetch_add(1, std::memory_order_release);  // pairs with refresh_pairs()
}

void Lanes::abandon() {
  // What another thread held at the fork is held for ever.
  new (&turn_mutex_) SpinLock;
  new (&mutex_) std::mutex;
  new (&all_) std::map<Incarnation, std::shared_ptr<LanePair>>;
  new (&pairs_) std::vector<std::shared_ptr<LanePair>>;
  new (&strangers_) std::vector<Stranger>;
  in_use_.store(false, std::memory_order_relaxed);
}

}  // namespace verbatim::local
