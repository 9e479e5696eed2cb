#include "local/revocation.h"

#include <sched.h>
#include <sys/syscall.h>

#include <utility>

#include "base/log.h"

namespace verbatim::local {
namespace {

constexpr Duration kPatience = Duration::milliseconds(100);
// Between two looks at what a thread is doing: longer than the kernel needs to put it off its processor.
constexpr Duration kLook = Duration::milliseconds(1);

// Whether the thread sleeps somewhere else than in a call that moves other processes' memory.
bool is_elsewhere(pid_t process, pid_t thread) {
  const std::optional<long> call = system_call_of(process, thread);
  return call && *call != SYS_process_vm_readv && *call != SYS_process_vm_writev;
}

// Allocates nothing itself, as it belongs to freeing: std::ref instead of what a std::function would copy.
template <class Matches>
void settle(Adapter& adapter, PeerTable& peers, const Clock& clock, const Matches& matches) {
  const PeerList everyone = peers.everyone();
  heavy_fence(adapter.view().revokes_by_membarrier());
  const Instant begun = clock.now();
  for (const std::shared_ptr<Peer>& peer : everyone) {
    const auto touches = [&](TouchTarget target) { return matches(*peer, target); };
    const auto wait = [&](const OngoingTouch& touch) {
      TouchWait one(touch, begun, clock);
      while (!one.is_over(*peer)) sched_yield();
    };
    for_each_ongoing_touch(peer->view().touch_records(), std::ref(touches), std::ref(wait));
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

bool TouchWait::is_over(const Peer& by) {
  if (touch_.has_moved_on() || by.gone()) return true;
  if (clock_->now() - begun_ <= kPatience) return false;
  if (!said_) {
    said_ = true;
    log(LogLevel::warn, "waiting for process {}, which is in the middle of an operation on memory being revoked",
        by.pid());
  }
  // Our own threads touch also what no entry of the target's names.
  return !by.is_self() && is_certain_to_turn_back(by);
}

bool TouchWait::is_certain_to_turn_back(const Peer& by) {
  const OngoingTouch::Actor actor = touch_.actor();
  const Instant now = clock_->now();
  if (actor.thread == 0 || now - looked_ < kLook) return false;
  looked_ = now;
  if (has_ended(by.pid(), actor.thread)) return true;
  const ThreadState state = thread_state(by.pid(), actor.thread);
  if (state.letter == 0) return false;
  const bool same = std::exchange(last_, state) == state;
  if (!first_) first_ = state;
  const bool runs = state.letter == 'R';
  if (!actor.in_kernel) return state.switches != first_->switches || (same && !runs);
  // A system call that was begun is over before a signal stops its thread; but it goes on while the thread just sleeps.
  return same && (state.letter == 'T' || (!runs && is_elsewhere(by.pid(), actor.thread)));
}

Revocation Revocation::of_window(Adapter& adapter, PeerTable& peers, const Clock& clock, MemoryKey key) {
  Revocation revocation;
  const PeerList everyone = peers.everyone();
  heavy_fence(adapter.view().revokes_by_membarrier());
  const auto matches = through_window(adapter, key);
  const Instant begun = clock.now();
  for (const std::shared_ptr<Peer>& peer : everyone)
    for_each_ongoing_touch(peer->view().touch_records(), matches, [&](const OngoingTouch& touch) {
      revocation.touches_.push_back({peer, TouchWait(touch, begun, clock)});
    });
  return revocation;
}

bool Revocation::is_over() {
  std::erase_if(touches_, [](Touch& one) { return one.wait.is_over(*one.by); });
  return touches_.empty();
}

}  // namespace verbatim::local
