// When a completion queue owes its channel an event (ibv_req_notify_cq(3), ibv_modify_cq(3)): once for each arming, for
// the first completion added after it that qualifies, or, moderated, when enough of them have come or have waited.
//
//             arm                  a completion that qualifies, not moderated: an event
//   unarmed ──────→ armed ──────────────────────────────────────────────────────────────→ unarmed
//                     │ moderated                       enough, or long enough: an event ↑
//                     └──────────────────────→ held ──────────────────────────────────────┘
//
// No lock and no clock of its own: the owner serializes the calls, but for armed() and due(), which any thread may ask.
#pragma once

#include <atomic>

#include "base/time.h"
#include "proto/work.h"

namespace verbatim::model {

// An event for `count` completions, or for fewer when the first of them is `period` old. Either being 0 means one for
// each completion.
struct Moderation {
  uint32_t count = 0;
  Duration period;
};

class CompletionNotification {
 public:
  enum class Owed { nothing, held, event };

  // An arming for every completion replaces one for solicited ones; the other way round nothing is taken away.
  void arm(bool solicited_only);
  // True when an event is owed now that was held back before.
  bool moderate(const Moderation& moderation);
  bool armed() const { return arming_.load(std::memory_order_relaxed) != Arming::none; }

  // A completion was added. Errors are solicited, and never held back.
  Owed on_completion(const Completion& completion, const Clock& clock);
  // True when an event that was held back is owed by now.
  bool on_time(Instant now);
  // When to call on_time(); kNever while nothing is held.
  Instant due() const { return {due_.load(std::memory_order_relaxed)}; }

 private:
  enum class Arming : uint8_t { none, solicited, every };

  bool disarm();

  // Written by the owner alone; others look only to be in time, and look again.
  std::atomic<Arming> arming_{Arming::none};
  std::atomic<int64_t> due_{kNever.ns};
  Moderation moderation_;
  uint32_t held_ = 0;
};

}  // namespace verbatim::model
