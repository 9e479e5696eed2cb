// How long an introduction may take, and what a call answers when its peer's process cannot be introduced: that this
// process is out of descriptors or memory as it is, since the program can mend that and try again; everything else is
// EHOSTUNREACH.
#pragma once

#include <cerrno>

#include "base/result.h"
#include "base/time.h"

namespace verbatim::model {

// For the agent to say whether the peer's process is there. It always does, unless it is stopped.
inline constexpr Duration kAgentPatience = Duration::milliseconds(30'000);
// From then on: for the peer's process to appear there.
inline constexpr Duration kIntroductionPatience = Duration::milliseconds(1000);

inline Status introduction_error(Status status) {
  if (status.ok()) return status;
  const bool is_shortage = status.error == EMFILE || status.error == ENFILE || status.error == ENOMEM;
  return is_shortage ? status : Status{EHOSTUNREACH};
}

}  // namespace verbatim::model
