// The connection manager as the agent runs it: what joins cm::Manager with the commands of processes, the sockets of
// their event channels, the addresses of this host and the clock of the agent.
//
// A command is answered at once. What comes of it for others is done when the call returns: messages to this host are
// handed back to the manager, and events are put into their channels as far as these have room (cm_commands.h). There
// is no way to other hosts yet: their addresses cannot be resolved (EHOSTUNREACH).
//
// A process is an owner; that it is gone, or does not want its identifiers any more, the caller says. That a channel
// was closed is noticed here, and before the next command is executed: as with the kernel's, its identifiers are then
// gone.
//
// Not thread-safe; never blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "agent/cm_commands.h"
#include "agent/event_poll.h"
#include "agent/frame.h"
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
    std::optional<commands::Answer> answer;  // nullopt: the command has none
    FileDescriptor channel;                  // goes with the answer to OPEN_CHANNEL
  };
  // `socket`: the channel's, if it came with a command that may take events back; borrowed.
  Reply execute(Instant now, cm::Owner owner, const commands::Command& command, const FileDescriptor& socket = {});
  void on_owner_death(Instant now, cm::Owner owner);

  // How much there is, for who looks for leaks.
  cm::Manager::Population population() const { return manager_.population(); }
  size_t channels() const { return channels_.size(); }

 private:
  struct EventChannel {
    cm::Owner owner;
    FileDescriptor socket;  // our end
    uint64_t events_sent = 0;
    bool is_full = false;  // until the kernel says that there is room again
  };

  // cm_service.cc
  void read_addresses(Instant now);
  void settle(Instant now);
  void deliver(Instant now, const cm::OutgoingMad& mad);
  void on_channel(Instant now, cm::Channel channel, uint32_t events);
  void send_events(Instant now, cm::Channel channel);
  Frame message_of(const cm::Event& event, cm::Owner owner) const;
  void wait_for_room(cm::Channel channel, bool wait);
  void take_back(cm::Channel channel, const FileDescriptor& socket);
  void retry_later(Instant now);
  bool owns(cm::Owner owner, cm::Channel channel) const;

  // cm_service_commands.cc
  Reply open_channel(cm::Owner owner);
  template <class Command, class Subject>
  commands::Answer end(cm::Owner owner, const Command& command, Subject subject, const FileDescriptor& socket,
                       const std::function<Status()>& execute);
  template <class Command>
  Reply reply_to(Instant now, cm::Owner owner, const Command& command, const FileDescriptor& socket);
  void tell(Instant now, cm::Owner owner, const commands::Create& command);
  void tell(Instant now, cm::Owner owner, const commands::TakeRequest& command);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Destroy& command, const FileDescriptor& socket);
  commands::Answer on(Instant now, cm::Owner owner, const commands::Migrate& command, const FileDescriptor& socket);
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
  commands::Answer on(Instant now, cm::Owner owner, const commands::Leave& command, const FileDescriptor& socket);

  cm::Manager manager_;
  const std::unique_ptr<HostNetwork> network_;
  const EventPoll poll_;  // the network, and each channel for its end
  std::map<cm::Channel, EventChannel> channels_;
  cm::Channel last_channel_;
  bool knows_addresses_ = false;
  Instant retry_at_ = kNever;
};

}  // namespace verbatim::agent
