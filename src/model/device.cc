#include "model/device.h"

#include "base/log.h"
#include "base/no_cancellation.h"
#include "model/completion_queue.h"
#include "model/queue_pair.h"

namespace verbatim::model {
namespace {

// Who has polled that often since a queue was armed is spinning.
constexpr uint32_t kPollsOfASpinner = 32;

}  // namespace

Device::Device(const Surroundings& surroundings, DeviceAttributes attributes)
    : surroundings_(surroundings),
      attributes_(std::move(attributes)),
      lanes_(surroundings.adapter, surroundings.peers),
      gids_(attributes_.node_guid, surroundings.addresses.interfaces()),
      windows_(surroundings.adapter, surroundings.peers, surroundings.clock) {}

PortAttributes Device::port() const {
  std::lock_guard lock(gid_mutex_);
  return port_attributes(gids_.first());
}

std::optional<GidEntry> Device::gid_at(size_t index) const {
  std::lock_guard lock(gid_mutex_);
  const GidEntry* entry = gids_.at(index);
  return entry ? std::optional(*entry) : std::nullopt;
}

bool Device::is_local(const Gid& gid) {
  {
    std::lock_guard lock(gid_mutex_);
    if (gids_.is_local(gid)) return true;
  }
  refresh_gids();
  std::lock_guard lock(gid_mutex_);
  return gids_.is_local(gid);
}

bool Device::refresh_gids() {
  const NoCancellation guard;
  std::lock_guard refreshing(refresh_mutex_);
  const std::vector<GidInterface> interfaces = surroundings_.addresses.interfaces();
  GidTable::Change change;
  {
    std::lock_guard lock(gid_mutex_);
    change = gids_.update(interfaces);
  }
  if (change.without_room)
    log(LogLevel::warn, "{} addresses of this host find no room in the GID table", change.without_room);
  if (change.indices.empty()) return false;
  log(LogLevel::info, "{} entries of the GID table changed", change.indices.size());
  std::lock_guard lock(events_mutex_);
  for (AsyncEvents* events : events_) events->raise({.type = AsyncEventType::gid_change, .port = kPort});
  return true;
}

PdId Device::next_pd_id() { return {last_pd_.fetch_add(1, std::memory_order_relaxed) + 1}; }

std::shared_ptr<QueuePair> Device::share(Qpn qpn) {
  std::shared_lock lock(registry_mutex_);
  const auto found = queue_pairs_.find(qpn.value);
  return found == queue_pairs_.end() ? nullptr : found->second->weak_from_this().lock();
}

void Device::add(QueuePair& queue_pair) {
  lanes_.between_turns([&] {
    std::unique_lock lock(registry_mutex_);
    queue_pairs_[queue_pair.qpn().value] = &queue_pair;
  });
}

void Device::remove(QueuePair& queue_pair) {
  lanes_.between_turns([&] {
    std::unique_lock lock(registry_mutex_);
    queue_pairs_.erase(queue_pair.qpn().value);
  });
}

void Device::add(CompletionQueue& queue) {
  std::unique_lock lock(registry_mutex_);
  completion_queues_.insert(&queue);
}

void Device::remove(CompletionQueue& queue) {
  std::unique_lock lock(registry_mutex_);
  completion_queues_.erase(&queue);
}

void Device::add(AsyncEvents& events) {
  std::lock_guard lock(events_mutex_);
  events_.insert(&events);
}

void Device::remove(AsyncEvents& events) {
  std::lock_guard lock(events_mutex_);
  events_.erase(&events);
}

void Device::take_notices(local::Peer& from) {
  const uint64_t lost = from.drain_notices([&](const local::NoticeFields& notice) {
    std::shared_lock lock(registry_mutex_);
    const auto found = queue_pairs_.find(notice.target.value);
    return found == queue_pairs_.end() || found->second->on_notice(from, notice);
  });
  if (lost) log(LogLevel::warn, "{} notices of process {} were overwritten before they were read", lost, from.pid());
}

void Device::add(SharedReceiveQueue& queue) {
  lanes_.between_turns([&] {
    std::unique_lock lock(registry_mutex_);
    shared_receive_queues_[queue.number()] = &queue;
  });
}

void Device::remove(SharedReceiveQueue& queue) {
  lanes_.between_turns([&] {
    std::unique_lock lock(registry_mutex_);
    shared_receive_queues_.erase(queue.number());
    // XRC receivers do not count as its users, and one may be in the middle of a message.
    for (const auto& [qpn, queue_pair] : queue_pairs_) queue_pair->forget(queue);
  });
}

SharedReceiveQueue* Device::shared_receives_in_turn(uint32_t number) const {
  const auto found = shared_receive_queues_.find(number);
  return found == shared_receive_queues_.end() ? nullptr : found->second;
}

void Device::purge_everywhere(const QueuePair& queue_pair) {
  std::shared_lock lock(registry_mutex_);
  for (CompletionQueue* queue : completion_queues_) queue->purge(queue_pair);
}

// ---- lanes ----

std::optional<local::ReplyFields> Device::LaneReceiver::serve(const local::Request& request) {
  const auto found = device_.queue_pairs_.find(request.fields().target.value);
  if (found == device_.queue_pairs_.end()) return local::ReplyFields{.kind = local::ReplyKind::absent};
  return found->second->serve(request);
}

void Device::LaneReceiver::deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply) {
  const auto found = device_.queue_pairs_.find(awaiting.source.value);
  if (found != device_.queue_pairs_.end()) found->second->deliver(awaiting, reply);
}

void Device::serve_lanes() {
  if (!lanes_.in_use()) return;
  const bool spins = polls_.load(std::memory_order_relaxed) > kPollsOfASpinner ||
                     polls_.fetch_add(1, std::memory_order_relaxed) == kPollsOfASpinner;
  // Whoever spins is better not disturbed by doorbells: the engine then looks every millisecond whether he still does.
  if (spins && adapter().awake_word().load(std::memory_order_relaxed) == 0) waker().wake();
  lanes_.turn(lane_receiver_);
}

void Device::hear_answers() {
  if (lanes_.in_use()) lanes_.take_turn(lane_receiver_);
}

void Device::expect_sleep() {
  polls_.store(0, std::memory_order_relaxed);
  adapter().awake_word().store(0, std::memory_order_seq_cst);  // pairs with Peer::wake
}

Backlog Device::carry_on_lanes() {
  uint32_t polls = polls_.load(std::memory_order_relaxed);
  if (polls > kPollsOfASpinner && polls_.compare_exchange_strong(polls, kPollsOfASpinner, std::memory_order_relaxed))
    return Backlog::waiting;
  switch (lanes_.turn(lane_receiver_)) {
    case local::Lanes::Turn::taken:
      return Backlog::waiting;
    case local::Lanes::Turn::busy:
      return Backlog::working;
    case local::Lanes::Turn::idle:
      break;
  }
  return Backlog::none;
}

void Device::on_peer_dead() {
  // What it answered before it ended counts.
  lanes_.take_turn(lane_receiver_);
  std::shared_lock lock(registry_mutex_);
  for (const auto& [qpn, queue_pair] : queue_pairs_) queue_pair->on_peer_dead();
}

Backlog Device::carry_on(Instant now) {
  Backlog backlog = carry_on_lanes();
  std::shared_lock lock(registry_mutex_);
  for (CompletionQueue* queue : completion_queues_) {
    if (queue->take_news_of_break())
      for (const auto& [qpn, queue_pair] : queue_pairs_) queue_pair->on_broken_queue();
    backlog = std::max(backlog, queue->carry_on(now));
  }
  return backlog;
}

}  // namespace verbatim::model
