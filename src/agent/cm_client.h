// A program's side of its agent's connection manager: event channels, and commands about the identifiers whose events
// come there (cm_commands.h says what there is, cm/manager.h what it does).
//
// A channel belongs to the agent of the moment. When that one is gone, everything on the channel is: its calls fail
// with ENODEV from then on, as after the removal of a device, and its descriptor is readable. A new channel is the next
// agent's.
//
// Thread-safe. Commands are no cancellation points; take_event() is one while it waits. In the child of a fork a client
// and its channels fail with ENODEV; to destroy them closes descriptors and tells nobody anything.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cassert>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "agent/cm_commands.h"
#include "agent/cm_link.h"
#include "agent/identity.h"
#include "base/copy_mark.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim {

// An event channel. Its end closes the descriptor, and with the last copy of that all identifiers on it are destroyed.
class CmChannel {
 public:
  CmChannel(std::shared_ptr<agent::CmLink> link, cm::Channel handle, FileDescriptor socket)
      : link_(std::move(link)), handle_(handle), socket_(socket.release()) {}
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;
  ~CmChannel();

  // Readable while there are events to take; may be waited for, made non-blocking and duplicated. Borrowed.
  int fd() const { return socket_.load(std::memory_order_relaxed); }
  // The caller has a copy of the descriptor, which is the channel's from now on, and the former is the caller's.
  void move_to(int fd) { socket_.store(fd, std::memory_order_relaxed); }
  cm::Channel handle() const { return handle_; }
  // Which agent, and by which connection: what identifiers of two channels share if they can be moved between them.
  const void* agent() const { return link_.get(); }

  // The answer, or the errno that is the manager's answer. ENODEV: the agent is gone. Of a command that names a channel
  // and ends or moves something, it is this one; EBADF then: its descriptor is none, and there may be events in it.
  template <class Command>
  Result<typename Command::Answer> call(const Command& command) {
    Result<commands::Answer> answer = link_->exchange(command);
    if constexpr (commands::kTakesEventsBack<Command>) {
      assert(command.channel == handle_);
      if (answer.error() == EBUSY) {
        if (::fcntl(fd(), F_GETFD) < 0) return Status{EBADF};  // before the link takes that for its own end
        answer = link_->exchange(command, nullptr, fd());
      }
    }
    if (!answer.ok()) return answer.status();
    const auto* const expected = std::get_if<typename Command::Answer>(&answer.value());
    if (!expected) return Status{ENODEV};
    return *expected;
  }
  // A command without an answer. ENODEV: the agent is gone.
  Status tell(const commands::Command& command) { return link_->tell(command); }

  // An identifier on this channel, which the agent will hear of with the next command. ENODEV: the agent is gone.
  // ENOMEM: the channel has had 2^32 of them.
  Result<cm::IdHandle> create(cm::PortSpace space, cm::QpType qp_type);

  // Waits for an event, as a read of the descriptor would: EAGAIN if that is non-blocking, EINTR after a signal whose
  // handler does not restart calls. ENODEV: the agent is gone.
  Result<commands::Taken> take_event();

 private:
  ssize_t receive_soon(agent::Frame& message);

  const std::shared_ptr<agent::CmLink> link_;
  const cm::Channel handle_;
  std::atomic<int> socket_;                // independent of other memory
  std::atomic<int> looking_ = 0;           // threads in receive_soon(), which the destructor waits for
  std::atomic<uint64_t> last_number_ = 0;  // of an identifier; independent of other memory
};

class CmClient {
 public:
  CmClient(AgentIdentity identity, std::string agent_path)
      : identity_(std::move(identity)), agent_path_(std::move(agent_path)) {}

  // Finds or starts the agent if there is none, which may take up to about ten seconds. Errors as connect_or_start()
  // (agent/launcher.h); EMFILE: this process, or the agent, has no descriptors left. ENODEV: one agent after the other
  // ended.
  Result<std::unique_ptr<CmChannel>> open_channel();

 private:
  Result<std::shared_ptr<agent::CmLink>> link();

  const AgentIdentity identity_;
  const std::string agent_path_;
  const CopyMark mark_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<agent::CmLink> link_;
};

}  // namespace verbatim
