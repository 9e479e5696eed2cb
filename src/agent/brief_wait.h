// To sleep until another process has answered costs more than most answers take: a processor that has nothing to do is
// stopped, and on a virtual machine 20 us pass until it runs again. So who expects something soon looks for a while
// before it sleeps, and lets others have its processor meanwhile.
#pragma once

#include <sched.h>

#include "agent/event_poll.h"
#include "base/time.h"

namespace verbatim::agent {

inline constexpr Duration kBriefWait = Duration::microseconds(50);

// Until `look` returns true, or some 50 us are over. Whether it did.
template <class Look>
bool wait_briefly(Look&& look) {
  if (look()) return true;
  for (const Instant end = monotonic_now() + kBriefWait; monotonic_now() < end;) {
    sched_yield();
    if (look()) return true;
  }
  return false;
}

}  // namespace verbatim::agent
