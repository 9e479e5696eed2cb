// A second process for tests: a fork that runs a function, with a pipe in each direction. Test code only.
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/file_descriptor.h"

namespace verbatim::local {

class TestChild {
 public:
  // The two ends of the conversation. hear() waits; it ends the process when there is nobody left to hear.
  class Talk {
   public:
    Talk(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}
    uint64_t hear() {
      uint64_t value = 0;
      if (read(in_.get(), &value, sizeof value) != sizeof value) _exit(120);
      return value;
    }
    void say(uint64_t value) {
      if (write(out_.get(), &value, sizeof value) != sizeof value) _exit(121);
    }

   private:
    FileDescriptor in_;
    FileDescriptor out_;
  };

  // `body(Talk&)` returns the child's exit code.
  template <class Body>
  explicit TestChild(Body body) : TestChild(Pipe(), Pipe(), body) {}
  TestChild(const TestChild&) = delete;
  ~TestChild() {
    if (pid_ > 0) kill(pid_, SIGKILL), join();
  }

  pid_t pid() const { return pid_; }
  uint64_t hear() { return talk_.hear(); }
  void say(uint64_t value) { talk_.say(value); }

  // Waits for its end; its exit code, or minus the signal that killed it.
  int join() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  struct Pipe {
    Pipe() {
      int ends[2];
      if (pipe(ends) != 0) abort();
      in = FileDescriptor(ends[0]);
      out = FileDescriptor(ends[1]);
    }
    FileDescriptor in;
    FileDescriptor out;
  };

  template <class Body>
  TestChild(Pipe down, Pipe up, Body body) : pid_(fork()), talk_(std::move(up.in), std::move(down.out)) {
    if (pid_ != 0) return;
    talk_ = Talk(std::move(down.in), std::move(up.out));
    _exit(body(talk_));
  }

  pid_t pid_;
  Talk talk_;
};

}  // namespace verbatim::local
