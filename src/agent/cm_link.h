// One connection to one agent, for commands to its connection manager. When that agent is gone, or does not answer for
// half a minute, the link is broken for good, and all that the manager knew of this process is lost.
//
// Thread-safe; a command waits for those of other threads. No call is a cancellation point. In the child of a fork a
// link is of no use (ENODEV), since it is the parent's; to destroy it closes a descriptor and tells nobody anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/cm_commands.h"
#include "agent/identity.h"
#include "agent/message_socket.h"
#include "base/copy_mark.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::agent {

class CmLink {
 public:
  // Finds or starts the agent. Errors as connect_or_start(); EPIPE: it was about to end.
  static Result<std::shared_ptr<CmLink>> open(const AgentIdentity& identity, const std::string& agent_path);
  explicit CmLink(FileDescriptor socket) : socket_(std::move(socket)) {}

  bool is_broken() const;
  // Whether this is the child of a fork, and the link its parent's.
  bool is_copy() const { return mark_.is_copy(); }
  // What the agent answered, or the errno that it answered. ENODEV: the link is broken. EMFILE: there was no descriptor
  // for the channel, which is closed again. `channel`: where the descriptor of an opened channel goes.
  // `socket`: goes with the command; -1: none.
  Result<commands::Answer> exchange(const commands::Command& command, FileDescriptor* channel = nullptr,
                                    int socket = -1);
  // Of a command that has no answer. ENODEV: the link is broken.
  Status tell(const commands::Command& command);
  // The same, but it goes only together with what is told or asked next.
  Status tell_later(const commands::Command& command);
  // After an event: what a thread did before it said what caused the event has been done for this thread too. The way
  // leads through another process, of which neither the language nor a sanitizer knows.
  void follow_what_was_said() const { static_cast<void>(said_.load(std::memory_order_acquire)); }  // pairs with send()

 private:
  // With mutex_ held.
  Status say(const Frame& command, int socket);
  Status send(const Frame& command, int socket);
  Result<Packet> ask(const Frame& command, int socket);
  Status give_up(const Packet* packet, int error);

  const CopyMark mark_;
  mutable std::mutex mutex_;
  FileDescriptor socket_;  // invalid: broken
  std::vector<Frame> later_;
  std::atomic<uint64_t> said_ = 0;  // how many commands
};

}  // namespace verbatim::agent
