#include "model/completion_notification.h"

namespace verbatim::model {

void CompletionNotification::arm(bool solicited_only) {
  if (!solicited_only)
    arming_.store(Arming::every, std::memory_order_relaxed);
  else if (!armed())
    arming_.store(Arming::solicited, std::memory_order_relaxed);
}

bool CompletionNotification::moderate(const Moderation& moderation) {
  moderation_ = moderation;
  // What is held was held by the rules of before.
  return held_ != 0 && disarm();
}

CompletionNotification::Owed CompletionNotification::on_completion(const Completion& completion, const Clock& clock) {
  if (!armed()) return Owed::nothing;
  const bool failed = completion.status != CompletionStatus::success;
  const bool qualifies = failed || completion.solicited || arming_.load(std::memory_order_relaxed) == Arming::every;
  if (!qualifies) return Owed::nothing;
  const bool moderated = moderation_.count > 1 && moderation_.period.ns > 0;
  if (!failed && moderated && held_ + 1 < moderation_.count) {
    if (held_++ == 0) due_.store((clock.now() + moderation_.period).ns, std::memory_order_relaxed);
    return Owed::held;
  }
  disarm();
  return Owed::event;
}

bool CompletionNotification::on_time(Instant now) { return now >= due() && disarm(); }

bool CompletionNotification::disarm() {
  arming_.store(Arming::none, std::memory_order_relaxed);
  due_.store(kNever.ns, std::memory_order_relaxed);
  held_ = 0;
  return true;
}

}  // namespace verbatim::model
