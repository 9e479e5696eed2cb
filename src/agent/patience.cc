#include "agent/patience.h"

#include <poll.h>

#include <cerrno>

#include "agent/event_poll.h"

namespace verbatim::agent {

Status await_readable(int socket, Patience& patience) {
  pollfd wait{socket, POLLIN, 0};
  while (!patience.over()) {
    const Duration length = patience.next_wait();
    const Instant start = monotonic_now();
    const int ready = ::poll(&wait, 1, static_cast<int>(length.ns / 1'000'000 + 1));
    if (ready > 0) return Status::success();
    if (ready < 0 && errno != EINTR) return {errno};
    patience.spend(monotonic_now() - start, length);
  }
  return {ETIMEDOUT};
}

}  // namespace verbatim::agent
