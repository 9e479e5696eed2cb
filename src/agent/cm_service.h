// The connection manager as the agent runs it: what joins cm::Manager with the commands of processes, the sockets of
// their event channels, the addresses of this host and the clock of the agent.
//
// A command is answered at once. What comes of it for others is done when the call returns: messages to this host are
// handed back to the manager, and channels that have events are marked (cm_commands.h). There is no way to other hosts
// yet: their addresses cannot be resolved (EHOSTUNREACH).
//
// A process is an owner; that it is gone, or does not want its identifiers any more, the caller says. That a channel
// was closed is noticed here, and before the next command is executed: as with the kernel's, its identifiers are then
// gone.
//
// Not thread-safe; never blocks.
#pragma once

#include <map>
#include <memory>

#include "agent/cm_commands.h"
#include "agent/event_poll.h"
#include "agent/host_network.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/manager.h"

namespace verbatim::agent {

class CmService {
 public:
  CmService(const cm::Configuration& configuration, std::unique_ptr<HostNetwork> network);
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  // Before anything else, once. EMFILE: there are no descriptors for it; of no use then.
  Status start(Instant now);

  // Readable when on_ready() has something to do. Borrowed.
  int fd() const { return poll_.fd(); }
  void on_ready(Instant now);
  Instant next_deadline() const;
  // A call before the deadline has no effect.
  void on_deadline(Instant now);

  struct Reply {
    commands::Answer answer;
    FileDescriptor channel;  // goes with the answer to OPEN_CHANNEL
  };
  Reply execute(Instant now, cm::Owner owner, const commands::Command& command);
  void on_owner_death(Instant now, cm::Owner owner);

  // How much there is, for who looks for leaks.
  cm::Manager::Population population() const { return manager_.population(); }
  size_t channels() const { return channels_.size(); }

 private:
  struct EventChannel {
    cm::Owner owner;
    FileDescriptor socket;  // our end
    bool marked = false;    // its mark is in the socket, or was read and not accounted for
  };

  // cm_service.cc
  void read_addresses(Instant now);
  void settle(Instant now);
  void deliver(Instant now, const cm::OutgoingMad& mad);
  void mark(Instant now, cm::Channel channel);
  void retry_later(Instant now);
  bool owns(cm::Owner owner, cm::Channel channel) const;
  bool is_mark_void(cm::Owner owner, cm::Channel channel) const;

  // cm_service_commands.cc
  Reply open_channel(cm::Owner owner);
  commands::Answer ended(Instant now, cm::Owner owner, cm::Channel channel, const Result<uint32_t>& events_taken);
  template <class Command>
  Reply reply_to(Instant now, cm::Owner owner, const Command& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::TakeEvent& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::DropMark& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Create& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Destroy& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Migrate& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetContext& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Query& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetTos& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetAckTimeout& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetReuseAddress& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetFamilyOnly& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::SetPath& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Bind& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::ResolveAddress& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::ResolveRoute& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Listen& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Connect& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Accept& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Establish& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Reject& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Disconnect& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::NotifyEstablished& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Join& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Leave& command);

  cm::Manager manager_;
  const std::unique_ptr<HostNetwork> network_;
  const EventPoll poll_;  // the network, and each channel for its end
  std::map<cm::Channel, EventChannel> channels_;
  cm::Channel last_channel_;
  bool knows_addresses_ = false;
  Instant retry_at_ = kNever;
};

}  // namespace verbatim::agent
