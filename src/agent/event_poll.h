// epoll(7) with the errors as values, and the clock its deadlines are measured with. Thread-safe as the kernel's are.
#pragma once

#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace verbatim::agent {

class EventPoll {
 public:
  EventPoll() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  bool valid() const { return epoll_.valid(); }
  int fd() const { return epoll_.get(); }
  Status add(int fd, uint32_t events, uint64_t tag) const { return control(EPOLL_CTL_ADD, fd, events, tag); }
  Status modify(int fd, uint32_t events, uint64_t tag) const { return control(EPOLL_CTL_MOD, fd, events, tag); }

  // Those of `room` that were filled; none after an interruption or when the deadline has passed.
  std::span<epoll_event> wait(std::span<epoll_event> room, Instant deadline, Instant now) const {
    const int count =
        ::epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), milliseconds(deadline, now));
    return room.first(static_cast<size_t>(std::max(count, 0)));
  }

 private:
  // Rounded up, so that nobody wakes just before the deadline and spins until it.
  static int milliseconds(Instant deadline, Instant now) {
    if (deadline == kNever) return -1;
    constexpr int64_t kLongest = 60'000;
    return static_cast<int>(std::clamp<int64_t>(((deadline - now).ns + 999'999) / 1'000'000, 0, kLongest));
  }

  Status control(int operation, int fd, uint32_t events, uint64_t tag) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return {::epoll_ctl(epoll_.get(), operation, fd, &event) == 0 ? 0 : errno};
  }

  FileDescriptor epoll_;
};

inline Instant monotonic_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace verbatim::agent
