#include "cm/event_queues.h"

#include <algorithm>

namespace verbatim::cm {
namespace {

IdHandle account_of(const Event& event) { return event.type == EventType::connect_request ? event.listener : event.id; }

}  // namespace

std::deque<Event>& EventQueues::queue_of(Channel channel) {
  std::deque<Event>& queue = queues_[channel];
  if (queue.empty()) ready_.push_back(channel);
  return queue;
}

void EventQueues::push(Channel channel, const Event& event) { queue_of(channel).push_back(event); }

const Event* EventQueues::front(Channel channel) const {
  const auto found = queues_.find(channel);
  return found == queues_.end() ? nullptr : &found->second.front();
}

std::optional<Event> EventQueues::take(Channel channel) {
  const auto found = queues_.find(channel);
  if (found == queues_.end()) return std::nullopt;
  const Event event = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  ++taken_[account_of(event)];
  if (event.membership) ++memberships_taken_[event.membership];
  return event;
}

void EventQueues::put_back(Channel channel, std::span<const Event> events) {
  if (events.empty()) return;
  std::deque<Event>& queue = queue_of(channel);
  queue.insert(queue.begin(), events.begin(), events.end());
  for (const Event& event : events) {
    if (const auto count = taken_.find(account_of(event)); count != taken_.end() && count->second > 0) --count->second;
    const auto count = memberships_taken_.find(event.membership);
    if (count != memberships_taken_.end() && count->second > 0) --count->second;
  }
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

template <class Unwanted>
void EventQueues::erase_if(Channel channel, Unwanted unwanted) {
  const auto found = queues_.find(channel);
  if (found == queues_.end()) return;
  std::erase_if(found->second, unwanted);
  if (found->second.empty()) queues_.erase(found);
}

void EventQueues::move(IdHandle account, Channel from, Channel to) {
  if (from == to) return;
  std::deque<Event> moved;
  erase_if(from, [&](const Event& event) {
    if (account_of(event) != account) return false;
    moved.push_back(event);
    return true;
  });
  for (const Event& event : moved) push(to, event);
}

std::vector<IdHandle> EventQueues::forget(IdHandle account, Channel channel) {
  taken_.erase(account);
  std::vector<IdHandle> orphans;
  erase_if(channel, [&](const Event& event) {
    if (account_of(event) != account) return false;
    if (event.type == EventType::connect_request) orphans.push_back(event.id);
    return true;
  });
  return orphans;
}

void EventQueues::forget(MembershipHandle membership, Channel channel) {
  memberships_taken_.erase(membership);
  erase_if(channel, [&](const Event& event) { return event.membership == membership; });
}

size_t EventQueues::size() const {
  size_t events = 0;
  for (const auto& [channel, queue] : queues_) events += queue.size();
  return events;
}

}  // namespace verbatim::cm
