// Events that wait to be taken, one queue for each channel, and how many were taken of each identifier and membership.
// The account of an event is the identifier that it is about; of a connect_request, its listener. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cm/event.h"

namespace verbatim::cm {

class EventQueues {
 public:
  void push(Channel channel, const Event& event);
  const Event* front(Channel channel) const;  // null: there is none
  std::optional<Event> take(Channel channel);
  // What was taken before is first again, in its order.
  void put_back(Channel channel, std::span<const Event> events);
  bool has_event(Channel channel) const;
  std::optional<Channel> poll_channel();

  // What is not taken moves along, behind what is there.
  void move(IdHandle account, Channel from, Channel to);
  uint32_t taken(IdHandle account) const { return count_of(taken_, account); }
  uint32_t taken(MembershipHandle membership) const { return count_of(memberships_taken_, membership); }
  // Ends the account. The connect_requests among what was not taken: their new identifiers are nobody's.
  std::vector<IdHandle> forget(IdHandle account, Channel channel);
  void forget(MembershipHandle membership, Channel channel);
  size_t size() const;
  // Of how many identifiers and memberships something had been taken.
  size_t accounts() const { return taken_.size() + memberships_taken_.size(); }

 private:
  template <class Key>
  static uint32_t count_of(const std::map<Key, uint32_t>& counts, Key key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  // That of the channel, which is announced if it had none.
  std::deque<Event>& queue_of(Channel channel);
  template <class Unwanted>
  void erase_if(Channel channel, Unwanted unwanted);

  std::map<Channel, std::deque<Event>> queues_;  // none is empty
  std::deque<Channel> ready_;
  std::map<IdHandle, uint32_t> taken_;
  std::map<MembershipHandle, uint32_t> memberships_taken_;
};

}  // namespace verbatim::cm
