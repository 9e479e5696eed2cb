// A kernel file descriptor that is readable exactly while at least one event is queued, and whose read(2) takes one:
// an eventfd used as a semaphore. Programs poll, dup and set O_NONBLOCK on it as they like.
#pragma once

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"
#include "base/no_cancellation.h"
#include "base/result.h"

namespace verbatim {

// Adds one to an eventfd. Any thread; no cancellation point, unlike write(2): who has news for others is in the middle
// of something that a cancelled thread must not leave half done.
inline void add_to_eventfd(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const long written = syscall(SYS_write, fd, &one, sizeof one);
}

class EventCounter {
 public:
  static Result<EventCounter> create() {
    FileDescriptor fd(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
    if (!fd.valid()) return Status{errno};
    return EventCounter(std::move(fd));
  }

  int fd() const { return fd_.get(); }

  // Any thread.
  void add() const { add_to_eventfd(fd_.get()); }

  // Takes one event without waiting, whatever the descriptor's flags; none may be there any more. No cancellation
  // point.
  void take_back() const {
    const NoCancellation guard;
    uint64_t value;
    iovec vector{&value, sizeof value};
    [[maybe_unused]] const ssize_t taken = preadv2(fd_.get(), &vector, 1, -1, RWF_NOWAIT);
  }

  // Takes one event from `fd`, this counter's or a duplicate. Blocks unless the fd has O_NONBLOCK (then EAGAIN); a
  // cancellation point, with nothing to unwind.
  static Status take(int fd) {
    uint64_t value;
    return read(fd, &value, sizeof value) == sizeof value ? Status::success() : Status{errno};
  }

 private:
  explicit EventCounter(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace verbatim
