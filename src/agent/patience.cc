#include "agent/patience.h"

#include <poll.h>

#include <cerrno>

#include "agent/event_poll.h"

namespace verbatim::agent {
namespace {

Status await(pollfd wait, Patience& patience) {
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

}  // namespace

Status await_readable(int socket, Patience& patience) { return await({socket, POLLIN, 0}, patience); }

Status await_writable(int socket, Patience& patience) { return await({socket, POLLOUT, 0}, patience); }

}  // namespace verbatim::agent
