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
  ~CmChannel() { FileDescriptor(fd()).reset(); }

  // Readable while there are events to take; may be waited for, made non-blocking and duplicated. Borrowed.
  int fd() const { return socket_.load(std::memory_order_relaxed); }
  // The caller has a copy of the descriptor, which is the channel's from now on, and the former is the caller's.
  void move_to(int fd) { socket_.store(fd, std::memory_order_relaxed); }
  cm::Channel handle() const { return handle_; }
  // Which agent, and by which connection: what identifiers of two channels share if they can be moved between them.
  const void* agent() const { return link_.get(); }

  // The answer, or the errno that is the manager's answer. ENODEV: the agent is gone. Of a command that names a channel
  // and ends or moves something, it is this one; not of TakeEvent and DropMark, which are take_event()'s.
  template <class Command>
  Result<typename Command::Answer> call(const Command& command) {
    const Result<commands::Answer> answer = link_->exchange(command);
    if (!answer.ok()) return answer.status();
    const auto* const expected = std::get_if<typename Command::Answer>(&answer.value());
    if (!expected) return Status{ENODEV};
    if constexpr (std::is_same_v<typename Command::Answer, commands::Ended>) {
      assert(command.channel == handle_);
      if (expected->mark_is_void) drop_mark();
    }
    return *expected;
  }

  // Waits for an event, as a read of the descriptor would: EAGAIN if that is non-blocking, EINTR after a signal whose
  // handler does not restart calls. ENODEV: the agent is gone.
  Result<commands::Taken> take_event();

 private:
  void drop_mark();

  const std::shared_ptr<agent::CmLink> link_;
  const cm::Channel handle_;
  std::atomic<int> socket_;  // independent of other memory
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
