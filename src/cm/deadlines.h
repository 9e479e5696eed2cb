// Who must be looked at when. One deadline each. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/time.h"

namespace verbatim::cm {

template <class Key>
class Deadlines {
 public:
  // kNever: none.
  void set(Key who, Instant when) {
    clear(who);
    if (when == kNever) return;
    when_[who] = when;
    order_.insert({when, who});
  }
  void clear(Key who) {
    const auto found = when_.find(who);
    if (found == when_.end()) return;
    order_.erase({found->second, who});
    when_.erase(found);
  }
  Instant next() const { return order_.empty() ? kNever : order_.begin()->first; }
  // The first whose deadline has come; it has none any more.
  std::optional<Key> pop_due(Instant now) {
    if (next() > now || order_.empty()) return std::nullopt;
    const Key who = order_.begin()->second;
    clear(who);
    return who;
  }

 private:
  std::map<Key, Instant> when_;
  std::set<std::pair<Instant, Key>> order_;
};

}  // namespace verbatim::cm
