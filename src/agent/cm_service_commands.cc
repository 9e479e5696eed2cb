// What processes say to the connection manager, and what they are answered.
#include <sys/socket.h>

#include <cerrno>
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

bool brings_view(cm::EventType type) {
  using enum cm::EventType;
  return type == addr_resolved || type == route_resolved || type == connect_request || type == connect_response;
}

}  // namespace

CmService::Reply CmService::execute(Instant now, cm::Owner owner, const Command& command) {
  on_ready(now);
  Reply reply = std::visit([&](const auto& body) { return reply_to(now, owner, body); }, command);
  settle(now);
  return reply;
}

template <class Command>
CmService::Reply CmService::reply_to(Instant now, cm::Owner owner, const Command& command) {
  if constexpr (std::is_same_v<Command, OpenChannel>)
    return open_channel(owner);
  else
    return {.answer = on(now, owner, command)};
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

Answer CmService::on(Instant now, cm::Owner owner, const TakeEvent& command) {
  if (!owns(owner, command.channel)) return Failure{EINVAL};
  channels_.at(command.channel).marked = false;
  const std::optional<cm::Event> event = manager_.take_event(command.channel);
  mark(now, command.channel);
  if (!event) return Failure{EAGAIN};
  Taken taken{.event = *event};
  if (brings_view(event->type)) {
    if (const Result<cm::IdView> view = manager_.query(owner, event->id); view.ok()) taken.view = view.value();
  }
  return taken;
}

Answer CmService::on(Instant now, cm::Owner owner, const DropMark& command) {
  if (!owns(owner, command.channel)) return Failure{EINVAL};
  channels_.at(command.channel).marked = false;
  mark(now, command.channel);
  return Nothing{};
}

// --- identifiers ----------------------------------------------------------------------------------------------------

Answer CmService::on(Instant, cm::Owner owner, const Create& command) {
  if (!owns(owner, command.channel) || !is_type_of(command.space, command.qp_type)) return Failure{EINVAL};
  return manager_.create(owner, command.channel, command.space, command.qp_type, command.context);
}

// What an end brings may come to the same channel: a goodbye to oneself.
Answer CmService::ended(Instant now, cm::Owner owner, cm::Channel channel, const Result<uint32_t>& events_taken) {
  if (!events_taken.ok()) return Failure{events_taken.error()};
  settle(now);
  return Ended{.events_taken = events_taken.value(), .mark_is_void = is_mark_void(owner, channel)};
}

Answer CmService::on(Instant now, cm::Owner owner, const Destroy& command) {
  return ended(now, owner, command.channel, manager_.destroy(now, owner, command.id));
}

Answer CmService::on(Instant now, cm::Owner owner, const Migrate& command) {
  if (!owns(owner, command.to)) return Failure{EINVAL};
  return ended(now, owner, command.channel, manager_.migrate(owner, command.id, command.to));
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

Answer CmService::on(Instant now, cm::Owner owner, const Leave& command) {
  return ended(now, owner, command.channel, manager_.leave(owner, command.membership));
}

}  // namespace verbatim::agent
