// What several of the agent's tests need: names of their own, child processes, members that speak the bare protocol.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "agent/agent_server.h"
#include "agent/client.h"
#include "agent/identity.h"
#include "agent/message_socket.h"
#include "agent/process.h"
#include "agent/protocol.h"
#include "base/random.h"

namespace verbatim::agent {

// How long a test waits for what must happen. Nothing that is right takes a noticeable part of it.
inline constexpr int kPatienceMs = 20'000;

inline AgentIdentity test_identity() {
  Result<AgentIdentity> identity = AgentIdentity::of_this_process();
  EXPECT_TRUE(identity.ok());
  AgentIdentity result = identity.take();
  result.tag = "test-" + std::to_string(random_u64());
  return result;
}

inline FileDescriptor listen_at(const AbstractName& name) {
  FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), name.get(), name.length), 0);
  EXPECT_EQ(::listen(listener.get(), 128), 0);
  return listener;
}

inline void write_byte(const FileDescriptor& fd, char byte) { EXPECT_EQ(::write(fd.get(), &byte, 1), 1); }

inline bool becomes_readable(int fd, int milliseconds = kPatienceMs) {
  pollfd wait{fd, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wait, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

inline std::vector<std::string> descriptors_of(const std::string& pid = "self") {
  std::vector<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + pid + "/fd")) {
    std::error_code gone;  // the one that reads the folder
    const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) targets.push_back(target.string());
  }
  return targets;
}

// A forked process that runs `body` and reports through a pipe; killed at the end of its life. `body` may read what
// tell() writes from the second descriptor.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void(FileDescriptor report)>& body)
      : ChildProcess([&](FileDescriptor report, FileDescriptor) { body(std::move(report)); }) {}

  explicit ChildProcess(const std::function<void(FileDescriptor report, FileDescriptor orders)>& body) {
    int up[2], down[2];
    EXPECT_EQ(::pipe2(up, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(down, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(up[0]);
      ::close(down[1]);
      body(FileDescriptor(up[1]), FileDescriptor(down[0]));
      ::_exit(0);
    }
    ::close(up[1]);
    ::close(down[0]);
    report_ = FileDescriptor(up[0]);
    orders_ = FileDescriptor(down[1]);
  }
  ~ChildProcess() { kill_and_wait(); }

  pid_t pid() const { return pid_; }

  // What the child reported; 0 if it ended instead.
  char read_byte() {
    char byte = 0;
    return ::read(report_.get(), &byte, 1) == 1 ? byte : 0;
  }
  void tell(char byte) { write_byte(orders_, byte); }

  int wait() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, 0) != pid_) ADD_FAILURE() << "somebody else waited for the child";
    pid_ = -1;
    return status;
  }
  void kill_and_wait() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor report_, orders_;
};

// An agent on a thread of this process.
class AgentThread {
 public:
  explicit AgentThread(const AgentIdentity& identity, AgentOptions options = {.linger = Duration::milliseconds(60'000)})
      : server_(identity, listen_at(identity.agent_name()), options), thread_([this] {
          EXPECT_TRUE(server_.run().ok());
          ended_ = true;
        }) {}
  ~AgentThread() { stop(); }

  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  bool ended() const { return ended_; }
  void join() { thread_.join(); }

 private:
  std::atomic<bool> ended_{false};
  AgentServer server_;
  std::thread thread_;
};

// A member that speaks the protocol by hand, so that a test sees and sends every message, malformed ones too.
class BareMember {
 public:
  explicit BareMember(const AgentIdentity& identity)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
        segment_(::memfd_create("segment", MFD_CLOEXEC)),
        doorbell_(::eventfd(0, EFD_CLOEXEC)) {
    EXPECT_TRUE(enable_credentials(socket_.get()).ok());
    const AbstractName name = identity.agent_name();
    EXPECT_EQ(::connect(socket_.get(), name.get(), name.length), 0);
  }

  // Welcomed and registered.
  BareMember(const AgentIdentity& identity, Slot slot) : BareMember(identity) {
    EXPECT_TRUE(std::holds_alternative<Welcome>(next()));
    say_hello(slot);
  }

  void say_hello(Slot slot) {
    Hello hello{.incarnation = incarnation_.value,
                .start_time = read_own_facts().value().start_time,
                .segment_size = 4096,
                .slots = SlotList::of(std::array{slot})};
    say(hello, std::array{segment_.get(), doorbell_.get()});
  }

  void say(const ToAgent& message, std::span<const int> descriptors = {}) {
    EXPECT_TRUE(send_packet(socket_.get(), encode(message), descriptors).ok());
  }

  // The next message; Refused{0} for a hang-up, which no agent sends.
  ToMember next() {
    EXPECT_TRUE(becomes_readable(socket_.get()));
    Result<Packet> packet = receive_packet(socket_.get());
    if (packet.error() == ECONNRESET) return Refused{0};
    EXPECT_TRUE(packet.ok()) << packet.error();
    if (!packet.ok()) return Refused{0};
    Result<ToMember> message = decode_to_member(packet.value().frame.view(), packet.value().descriptors.size());
    EXPECT_TRUE(message.ok());
    received_ = std::move(packet.value().descriptors);
    return message.ok() ? message.take() : Refused{0};
  }

  template <class Body>
  Body expect() {
    const ToMember message = next();
    EXPECT_TRUE(std::holds_alternative<Body>(message)) << "message of index " << message.index();
    return std::holds_alternative<Body>(message) ? std::get<Body>(message) : Body{};
  }

  void expect_refusal(Refusal refusal) {
    EXPECT_EQ(expect<Refused>().reason, static_cast<uint32_t>(refusal));
    EXPECT_EQ(expect<Refused>().reason, 0u);
  }

  bool has_message() const { return becomes_readable(socket_.get(), 0); }

  Incarnation incarnation() const { return incarnation_; }
  void set_incarnation(Incarnation incarnation) { incarnation_ = incarnation; }
  int socket() const { return socket_.get(); }
  const FileDescriptor& segment() const { return segment_; }
  const std::vector<FileDescriptor>& received() const { return received_; }
  void hang_up() { socket_.reset(); }

 private:
  FileDescriptor socket_, segment_, doorbell_;
  Incarnation incarnation_{random_u64() | 1};
  std::vector<FileDescriptor> received_;
};

// When it returns, the agent has handled, and answered, all that it was told before the call: a connection waits for
// its turn behind what is ready, and is welcomed after what the same turn has to say to others.
inline void await_turn(const AgentIdentity& identity) {
  for (int turn = 0; turn < 2; ++turn) BareMember(identity).expect<Welcome>();
}

inline constexpr const char* kNoAgent = "/nonexistent/verbatim-agent";

// A client with memory of its own, that writes down its events.
class Member : public AgentEvents {
 public:
  Member(const AgentIdentity& identity, Slot slot, const std::string& path = kNoAgent)
      : segment_(::memfd_create("segment", MFD_CLOEXEC)),
        doorbell_(::eventfd(0, EFD_CLOEXEC)),
        client_(identity, path, {incarnation_, {slot}, segment_.get(), 4096, doorbell_.get()}) {}

  void on_peer(PeerProcess peer) override {
    peers_.push_back(std::move(peer));
    if (on_peer_hook) on_peer_hook();
  }
  void on_peer_slot(Incarnation peer, Slot slot) override { slots_.push_back({peer, slot}); }
  void on_peer_dead(Incarnation peer) override { dead_.push_back(peer); }
  void on_unowned(Slot slot) override { unowned_.push_back(slot); }
  void on_everyone() override { ++everyone_; }
  void on_refused(std::string_view why) override { refusals_.emplace_back(why); }

  // Handles what comes until `done`.
  void receive_until(const std::function<bool()>& done) {
    client_.receive(*this);
    while (!done()) {
      ASSERT_TRUE(becomes_readable(client_.fd())) << "nothing comes any more";
      client_.receive(*this);
    }
  }
  void await_peers(size_t count) {
    receive_until([&] { return peers_.size() >= count; });
  }
  void await_slots(size_t count) {
    receive_until([&] { return slots_.size() >= count; });
  }
  void await_unowned(size_t count) {
    receive_until([&] { return unowned_.size() >= count; });
  }
  void await_everyone() {
    receive_until([&] { return everyone_ != 0; });
  }
  void await_dead(size_t count) {
    receive_until([&] { return dead_.size() >= count; });
  }
  void await_refusals(size_t count) {
    receive_until([&] { return refusals_.size() >= count; });
  }

  ino_t segment_inode() const { return inode(segment_.get()); }
  static ino_t inode(int fd) {
    struct stat file {};
    EXPECT_EQ(::fstat(fd, &file), 0);
    return file.st_ino;
  }

  std::function<void()> on_peer_hook;
  const Incarnation incarnation_{random_u64() | 1};
  std::vector<PeerProcess> peers_;
  std::vector<std::pair<Incarnation, Slot>> slots_;
  std::vector<Incarnation> dead_;
  std::vector<Slot> unowned_;
  int everyone_ = 0;
  std::vector<std::string> refusals_;

 private:
  FileDescriptor segment_, doorbell_;

 public:
  AgentClient client_;  // borrows the descriptors
};

}  // namespace verbatim::agent
