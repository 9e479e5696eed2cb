#include "cm/event_queues.h"

#include <algorithm>

namespace verbatim::cm {

void EventQueues::push(Channel channel, IdHandle account, const Event& event) { append(channel, {account, event}); }

void EventQueues::append(Channel channel, const Waiting& waiting) {
  std::deque<Waiting>& queue = queues_[channel];
  if (queue.empty()) ready_.push_back(channel);
  queue.push_back(waiting);
}

std::optional<Event> EventQueues::take(Channel channel) {
  const auto found = queues_.find(channel);
  if (found == queues_.end()) return std::nullopt;
  const Waiting waiting = found->second.front();
  found->second.pop_front();
  erase_if_empty(channel);
  ++taken_[waiting.account];
  if (waiting.event.membership) ++memberships_taken_[waiting.event.membership];
  return waiting.event;
}

bool EventQueues::has_event(Channel channel) const { return queues_.contains(channel); }

std::optional<Channel> EventQueues::poll_channel() {
  while (!ready_.empty()) {
    const Channel channel = ready_.front();
    ready_.pop_front();
    if (has_event(channel)) return channel;
  }
  return std::nullopt;
}

void EventQueues::move(IdHandle account, Channel from, Channel to) {
  const auto found = queues_.find(from);
  if (found == queues_.end() || from == to) return;
  std::deque<Waiting> moved;
  std::erase_if(found->second, [&](const Waiting& waiting) {
    if (waiting.account != account) return false;
    moved.push_back(waiting);
    return true;
  });
  erase_if_empty(from);
  for (const Waiting& waiting : moved) append(to, waiting);
}

std::vector<IdHandle> EventQueues::forget(IdHandle account, Channel channel) {
  taken_.erase(account);
  std::vector<IdHandle> orphans;
  const auto found = queues_.find(channel);
  if (found == queues_.end()) return orphans;
  std::erase_if(found->second, [&](const Waiting& waiting) {
    if (waiting.account != account) return false;
    if (waiting.event.type == EventType::connect_request) orphans.push_back(waiting.event.id);
    return true;
  });
  erase_if_empty(channel);
  return orphans;
}

void EventQueues::forget(MembershipHandle membership, Channel channel) {
  memberships_taken_.erase(membership);
  const auto found = queues_.find(channel);
  if (found == queues_.end()) return;
  std::erase_if(found->second, [&](const Waiting& waiting) { return waiting.event.membership == membership; });
  erase_if_empty(channel);
}

void EventQueues::erase_if_empty(Channel channel) {
  const auto found = queues_.find(channel);
  if (found != queues_.end() && found->second.empty()) queues_.erase(found);
}

size_t EventQueues::size() const {
  size_t events = 0;
  for (const auto& [channel, queue] : queues_) events += queue.size();
  return events;
}

}  // namespace verbatim::cm
