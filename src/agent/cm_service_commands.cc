// What processes say to the connection manager, and what they are answered.
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "agent/cm_service.h"

namespace verbatim::agent {
namespace {

using namespace commands;

Answer answer(const Status& status) { return status.ok() ? Answer(Nothing{}) : Answer(Failure{status.error}); }

template <class Value>
Answer answer(const Result<Value>& result) {
  return result.ok() ? Answer(result.value()) : Answer(Failure{result.error()});
}

bool is_type_of(cm::PortSpace space, cm::QpType type) {
  switch (space) {
    case cm::PortSpace::tcp:
      return type == cm::QpType::rc;
    case cm::PortSpace::udp:
    case cm::PortSpace::ipoib:
      return type == cm::QpType::ud;
    case cm::PortSpace::ib:
      return true;
  }
  return false;
}

// The channel whose programs may name an identifier so (Create).
uint64_t channel_of(cm::IdHandle id) { return id.value >> 32; }

}  // namespace

CmService::Reply CmService::execute(Instant now, cm::Owner owner, const Command& command,
                                    const FileDescriptor& socket) {
  on_ready(now);
  Reply reply = std::visit([&](const auto& body) { return reply_to(now, owner, body, socket); }, command);
  settle(now);
  return reply;
}

template <class Command>
CmService::Reply CmService::reply_to(Instant now, cm::Owner owner, const Command& command,
                                     const FileDescriptor& socket) {
  if constexpr (std::is_same_v<Command, OpenChannel>) {
    return open_channel(owner);
  } else if constexpr (kTakesEventsBack<Command>) {
    return {.answer = on(now, owner, command, socket), .channel = {}};
  } else if constexpr (kIsAnswered<Command>) {
    return {.answer = on(now, owner, command), .channel = {}};
  } else {
    tell(now, owner, command);
    return {};
  }
}

// --- channels -------------------------------------------------------------------------------------------------------

CmService::Reply CmService::open_channel(cm::Owner owner) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {.answer = Failure{errno}};
  FileDescriptor ours(ends[0]), theirs(ends[1]);
  const cm::Channel handle{++last_channel_.value};
  // Only its end is of interest.
  if (const Status added = poll_.add(ours.get(), 0, handle.value); !added.ok()) return {.answer = Failure{added.error}};
  channels_[handle] = {.owner = owner, .socket = std::move(ours)};
  return {.answer = handle, .channel = std::move(theirs)};
}

// Executes it when no event is in the channel's socket that it must not leave there. EBUSY: there may be one.
template <class Command, class Subject>
Answer CmService::end(cm::Owner owner, const Command& command, Subject subject, const FileDescriptor& socket,
                      const std::function<Status()>& execute) {
  if (!owns(owner, command.channel)) return Failure{EINVAL};
  if (socket.valid()) take_back(command.channel, socket);
  const uint32_t sent = manager_.events_taken(subject);
  if (!socket.valid() && sent > command.received) return Failure{EBUSY};
  const Status ended = execute();
  return ended.ok() ? Answer(Ended{sent}) : Answer(Failure{ended.error});
}

// --- identifiers ----------------------------------------------------------------------------------------------------

void CmService::tell(Instant, cm::Owner owner, const Create& command) {
  const bool is_possible = owns(owner, command.channel) && channel_of(command.id) == command.channel.value &&
                           is_type_of(command.space, command.qp_type);
  if (!is_possible) return;
  [[maybe_unused]] const Status created =
      manager_.create(owner, command.id, command.channel, command.space, command.qp_type, command.context);
}

Answer CmService::on(Instant now, cm::Owner owner, const Destroy& command, const FileDescriptor& socket) {
  return end(owner, command, command.id, socket, [&] { return manager_.destroy(now, owner, command.id); });
}

Answer CmService::on(Instant, cm::Owner owner, const Migrate& command, const FileDescriptor& socket) {
  if (!owns(owner, command.to)) return Failure{EINVAL};
  return end(owner, command, command.id, socket, [&] { return manager_.migrate(owner, command.id, command.to); });
}

Answer CmService::on(Instant, cm::Owner owner, const SetContext& command) {
  return answer(manager_.set_context(owner, command.id, command.context));
}

Answer CmService::on(Instant, cm::Owner owner, const Query& command) {
  return answer(manager_.query(owner, command.id));
}

// --- options --------------------------------------------------------------------------------------------------------

Answer CmService::on(Instant, cm::Owner owner, const SetTos& command) {
  return answer(manager_.set_tos(owner, command.id, command.tos));
}

Answer CmService::on(Instant, cm::Owner owner, const SetAckTimeout& command) {
  return answer(manager_.set_ack_timeout(owner, command.id, command.ack_timeout));
}

Answer CmService::on(Instant, cm::Owner owner, const SetReuseAddress& command) {
  return answer(manager_.set_reuse_address(owner, command.id, command.reuse));
}

Answer CmService::on(Instant, cm::Owner owner, const SetFamilyOnly& command) {
  return answer(manager_.set_family_only(owner, command.id, command.only));
}

Answer CmService::on(Instant, cm::Owner owner, const SetPath& command) {
  return answer(manager_.set_path(owner, command.id, command.path));
}

// --- addresses ------------------------------------------------------------------------------------------------------

Answer CmService::on(Instant, cm::Owner owner, const Bind& command) {
  return answer(manager_.bind(owner, command.id, command.source, command.privileged));
}

Answer CmService::on(Instant now, cm::Owner owner, const ResolveAddress& command) {
  return answer(manager_.resolve_address(now, owner, command.id, command.what));
}

Answer CmService::on(Instant, cm::Owner owner, const ResolveRoute& command) {
  return answer(manager_.resolve_route(owner, command.id));
}

// --- connections ----------------------------------------------------------------------------------------------------

Answer CmService::on(Instant now, cm::Owner owner, const Listen& command) {
  return answer(manager_.listen(now, owner, command.id, command.backlog));
}

// The request may have gone with its listener.
void CmService::tell(Instant, cm::Owner owner, const TakeRequest& command) {
  [[maybe_unused]] const Status taken = manager_.take_request(owner, command.id);
}

Answer CmService::on(Instant now, cm::Owner owner, const Connect& command) {
  return answer(manager_.connect(now, owner, command.id, command.offer));
}

Answer CmService::on(Instant now, cm::Owner owner, const Accept& command) {
  return answer(manager_.accept(now, owner, command.id, command.offer));
}

Answer CmService::on(Instant now, cm::Owner owner, const Establish& command) {
  return answer(manager_.establish(now, owner, command.id));
}

Answer CmService::on(Instant now, cm::Owner owner, const Reject& command) {
  return answer(manager_.reject(now, owner, command.id, command.reason, command.private_data));
}

Answer CmService::on(Instant now, cm::Owner owner, const Disconnect& command) {
  return answer(manager_.disconnect(now, owner, command.id));
}

Answer CmService::on(Instant now, cm::Owner owner, const NotifyEstablished& command) {
  return answer(manager_.notify_established(now, owner, command.id));
}

// --- multicast ------------------------------------------------------------------------------------------------------

Answer CmService::on(Instant, cm::Owner owner, const Join& command) {
  return answer(manager_.join(owner, command.id, command.group, command.context));
}

Answer CmService::on(Instant, cm::Owner owner, const Leave& command, const FileDescriptor& socket) {
  return end(owner, command, command.membership, socket, [&] { return manager_.leave(owner, command.membership); });
}

}  // namespace verbatim::agent
