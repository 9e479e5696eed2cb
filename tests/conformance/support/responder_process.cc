// Responders and where they live: in this process, or in a fresh one of the same program.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "conformance/support/responder_state.h"
#include "support/refused_call.h"

namespace verbatim::conformance {
namespace {

using Act = Command::Act;

template <class Message>
bool send_whole(int socket, const Message& message) {
  return send(socket, &message, sizeof message, MSG_NOSIGNAL) == sizeof message;
}

template <class Message>
bool receive_whole(int socket, Message& message) {
  ssize_t length;
  do length = recv(socket, &message, sizeof message, 0);
  while (length < 0 && errno == EINTR);
  return length == sizeof message;
}

class ResponderHere final : public Responder {
 public:
  ResponderHere() : Responder(MemoryKind::anonymous) {}
  void tell(const Command& command) override { reply_ = state_.execute(command); }
  Reply answer() override { return reply_; }
  pid_t pid() const override { return getpid(); }
  void kill() override { ADD_FAILURE() << "would kill the test itself"; }
  void kill_liar() override { kill(); }

 private:
  Reply reply_;
  ResponderState state_;
};

class ResponderElsewhere final : public Responder {
 public:
  explicit ResponderElsewhere(MemoryKind memory) : Responder(memory) {
    int ends[2];
    // The child's end is inherited, ours is not: when we end, the child reads the end of the stream.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      fail("socketpair");
      return;
    }
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Onto itself: takes close-on-exec away (posix_spawn_file_actions_adddup2(3), glibc 2.29).
    posix_spawn_file_actions_adddup2(&actions, ends[1], ends[1]);
    const std::string option = std::string(kResponderOption) + std::to_string(ends[1]);
    char* const arguments[] = {program_invocation_name, const_cast<char*>(option.c_str()), nullptr};
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0) fail("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }

  ~ResponderElsewhere() override {
    if (pid_ > 0) {
      ask({.act = Act::stop});
      const int status = reap();
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the responder's wait status is " << status;
    }
    close(socket_);
  }

  void tell(const Command& command) override {
    if (!send_whole(socket_, command)) ADD_FAILURE() << "the responder has ended";
  }

  Reply answer() override {
    Reply reply;
    if (!receive_whole(socket_, reply)) ADD_FAILURE() << "the responder has ended";
    return reply;
  }

  pid_t pid() const override { return pid_; }

  void kill() override {
    const int status = kill_and_reap();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  void kill_liar() override { kill_and_reap(); }

 private:
  int kill_and_reap() {
    if (pid_ <= 1) {
      ADD_FAILURE() << "there is no such process";
      return -1;
    }
    ::kill(pid_, SIGKILL);
    return reap();
  }

  void fail(const char* what) { ADD_FAILURE() << what << ": " << strerror(errno); }

  int reap() {
    int status = -1;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace

std::unique_ptr<Responder> Responder::start(Setting setting) {
  switch (setting) {
    case Setting::in_process:
      return std::make_unique<ResponderHere>();
    case Setting::other_process_file:
      return std::make_unique<ResponderElsewhere>(MemoryKind::file);
    case Setting::other_process_anonymous:
      return std::make_unique<ResponderElsewhere>(MemoryKind::anonymous);
    case Setting::other_process_unreachable: {
      // Once: each filter more costs every system call, and there is a limit.
      static const bool refused = testing_support::refuse_process_memory();
      EXPECT_TRUE(refused) << "no system call can be refused here";
      return std::make_unique<ResponderElsewhere>(MemoryKind::anonymous);
    }
  }
  return nullptr;
}

int serve_commands(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  {
    ResponderState state;
    Command command;
    while (receive_whole(socket, command)) {
      if (!send_whole(socket, state.execute(command))) return EXIT_FAILURE;
      if (command.act == Act::stop) break;
    }
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace verbatim::conformance
