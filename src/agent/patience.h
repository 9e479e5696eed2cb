// How long a program waits for its agent, counted in waits. While the machine or this process was stopped, the agent
// could not answer or was not heard: each wait counts as its own length at most. Not thread-safe.
#pragma once

#include <algorithm>

#include "base/result.h"
#include "base/time.h"

namespace verbatim::agent {

class Patience {
 public:
  explicit Patience(Duration total) : left_(total) {}

  bool over() const { return left_.ns <= 0; }
  // A short one, so that little is lost of a wait during which everything stood still.
  Duration next_wait() const { return std::min(left_, Duration::milliseconds(50)); }
  // After a wait that was to take `wanted` and took `waited`.
  void spend(Duration waited, Duration wanted) { left_.ns -= std::min(waited, wanted).ns; }

 private:
  Duration left_;
};

// Through the program's signal handlers, however often they interrupt. ETIMEDOUT: patience is over.
Status await_readable(int socket, Patience& patience);
Status await_writable(int socket, Patience& patience);

}  // namespace verbatim::agent
