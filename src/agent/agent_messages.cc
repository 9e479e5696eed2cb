// What members say to the agent, and what they are told.
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/agent_server.h"
#include "agent/brief_wait.h"
#include "agent/cm_protocol.h"
#include "base/log.h"
#include "base/random.h"
#include "host/network_settings.h"

namespace verbatim::agent {
namespace {

// Messages read from one member before the others have their turn.
constexpr int kMessagesPerTurn = 64;

Refusal refusal_for(int error) {
  switch (error) {
    case EMFILE:
      return Refusal::out_of_descriptors;
    case EPROTONOSUPPORT:
      return Refusal::other_version;
    default:
      return Refusal::malformed_message;
  }
}

std::shared_ptr<const SharedDescriptors> share(std::vector<FileDescriptor>& descriptors) {
  return descriptors.empty() ? nullptr : std::make_shared<SharedDescriptors>(std::move(descriptors));
}

cm::Configuration cm_configuration() {
  const host::NetworkSettings settings = host::network_settings();
  return {// The device's would not tell apart what agents of several users of this host say.
          .ca_guid = random_u64(),
          .seed = random_u64(),
          .ports = {.first_unprivileged = settings.first_unprivileged_port,
                    .first_ephemeral = settings.first_ephemeral_port,
                    .last_ephemeral = settings.last_ephemeral_port},
          .ipv6_only = settings.ipv6_only,
          .max_backlog = settings.max_rdma_backlog};
}

}  // namespace

void AgentServer::read_from(Id id) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second.postponed) return;
    Result<Packet> packet = receive_packet(found->second.socket.get());
    if (packet.error() == EAGAIN) return;
    if (packet.error() == EPROTO || packet.error() == EMFILE) return cut_off(id, refusal_for(packet.error()));
    if (!packet.ok()) return bury(id);

    Packet& received = packet.value();
    const bool own = received.sender.pid == found->second.process.pid && received.sender.uid == identity_.uid;
    if (!own) return cut_off(id, Refusal::other_process);
    if (found->second.is_managing) {
      on_command(id, received);
      continue;
    }
    const Result<ToAgent> message = decode_to_agent(received.frame.view(), received.descriptors.size());
    if (!message.ok()) return cut_off(id, refusal_for(message.error()));
    handle(id, message.value(), share(received.descriptors));
  }
}

void AgentServer::handle(Id id, const ToAgent& message, const Descriptors& descriptors) {
  Connection& connection = connections_.at(id);
  const Hello* hello = std::get_if<Hello>(&message);
  const std::optional<Refusal> refusal = hello ? on_hello(id, *hello, descriptors) : on_request(connection, message);
  if (refusal == Refusal::slot_taken) {
    // Not a refusal yet: the slot's former owner may be on its way out. An earlier deadline stands.
    const Instant deadline =
        connection.postponed ? connection.postponed->deadline : monotonic_now() + options_.slot_grace;
    connection.postponed = Postponed{message, descriptors, deadline};
    update_interest(id, connection);
  } else if (refusal) {
    cut_off(id, *refusal);
  } else if (connection.postponed) {
    connection.postponed.reset();
    update_interest(id, connection);
  }
}

std::optional<Refusal> AgentServer::on_hello(Id id, const Hello& message, const Descriptors& descriptors) {
  Connection& connection = connections_.at(id);
  if (connection.member != Incarnation{}) return Refusal::malformed_message;
  if (message.start_time != connection.process.start_time) return Refusal::other_process;
  const Incarnation incarnation{message.incarnation};
  const auto [entry, is_new] = members_.emplace(incarnation, id);  // first: to join is to be written to
  if (!is_new) return Refusal::incarnation_taken;
  const Status joined = registry_.join({incarnation, connection.process.pid, message.start_time, message.segment_size,
                                        message.slots.list(), descriptors});
  if (!joined.ok()) {
    members_.erase(entry);
    return joined.error == EADDRINUSE ? Refusal::slot_taken : Refusal::incarnation_taken;
  }
  connection.member = incarnation;
  unwatch(incarnation);
  log(LogLevel::info, "agent: process {} ({}) joined", connection.process.pid,
      std::string_view(message.comm.data(), ::strnlen(message.comm.data(), message.comm.size())));
  return {};
}

std::optional<Refusal> AgentServer::on_request(Connection& connection, const ToAgent& message) {
  if (const Manage* manage = std::get_if<Manage>(&message)) return on_manage(connection, *manage);
  if (connection.member == Incarnation{}) return Refusal::malformed_message;
  if (const AddSlot* add = std::get_if<AddSlot>(&message)) {
    const Status added = registry_.add_slot(connection.member, {static_cast<uint16_t>(add->slot)});
    if (added.ok()) return {};
    return added.error == EADDRINUSE ? Refusal::slot_taken : Refusal::malformed_message;
  }
  if (const Introduce* introduce = std::get_if<Introduce>(&message)) {
    registry_.introduce(connection.member, {static_cast<uint16_t>(introduce->slot)});
    return {};
  }
  if (std::holds_alternative<IntroduceEveryone>(message)) {
    registry_.introduce_everyone(connection.member);
    return {};
  }
  return on_known_peer(connection.member, std::get<KnownPeer>(message));
}

std::optional<Refusal> AgentServer::on_known_peer(Incarnation member, const KnownPeer& message) {
  const Incarnation peer{message.incarnation};
  const pid_t pid = static_cast<pid_t>(message.pid);
  const bool is_new = !registry_.is_known(peer) && !registry_.is_present(peer);
  if (!registry_.know(member, peer, pid).ok()) return Refusal::malformed_message;
  if (is_new && peer != member) watch({peer, pid, message.start_time, {}});
  return {};
}

std::optional<Refusal> AgentServer::on_manage(Connection& connection, const Manage& message) {
  if (connection.member != Incarnation{}) return Refusal::malformed_message;
  if (message.start_time != connection.process.start_time) return Refusal::other_process;
  if (!start_cm().ok()) return Refusal::out_of_descriptors;
  connection.is_managing = true;
  return {};
}

// Most agents need none.
Status AgentServer::start_cm() {
  if (cm_) return Status::success();
  auto service = std::make_unique<CmService>(cm_configuration(), std::make_unique<KernelNetwork>());
  if (const Status started = service->start(monotonic_now()); !started.ok()) return started;
  if (const Status added = poll_.add(service->fd(), EPOLLIN, tag_of(Source::cm, 0)); !added.ok()) return added;
  cm_ = std::move(service);
  return Status::success();
}

void AgentServer::on_command(Id id, const Packet& packet) {
  const Result<commands::Command> command = decode_command(packet.frame.view(), packet.descriptors.size());
  if (!command.ok()) return cut_off(id, refusal_for(command.error()));
  const FileDescriptor none;
  const FileDescriptor& socket = packet.descriptors.empty() ? none : packet.descriptors.front();
  const Instant now = monotonic_now();
  brief_wait_end_ = now + kBriefWait;
  CmService::Reply reply = cm_->execute(now, {id}, command.value(), socket);
  if (!reply.answer) return;
  SharedDescriptors channel;
  if (reply.channel.valid()) channel.push_back(std::move(reply.channel));
  connections_.at(id).outgoing.push(encode(*reply.answer), share(channel));
  to_flush_.insert(id);
}

void AgentServer::retry_postponed() {
  std::vector<Id> waiting;
  for (const auto& [id, connection] : connections_) {
    if (connection.postponed) waiting.push_back(id);
  }
  for (Id id : waiting) {
    const Postponed again = *connections_.at(id).postponed;
    handle(id, again.message, again.descriptors);
  }
}

// To flush is to learn what was accepted, which may give more to send.
void AgentServer::flush_all() {
  while (!to_flush_.empty()) {
    const Id id = *to_flush_.begin();
    to_flush_.erase(to_flush_.begin());
    flush(id);
  }
}

void AgentServer::flush(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  std::vector<Incarnation> introduced;
  const Status sent =
      connection.outgoing.flush(connection.socket.get(), [&](Incarnation whom) { introduced.push_back(whom); });
  for (Incarnation whom : introduced) registry_.accepted(connection.member, whom);

  const bool is_gone = sent.error == EPIPE || sent.error == ECONNRESET;
  if (is_gone) return bury(id);
  if (connection.outgoing.size() > options_.queue_limit) return cut_off(id, Refusal::does_not_read);
  connection.send_stalled = !sent.ok() && sent.error != EAGAIN;
  if (connection.send_stalled) retry_soon();
  update_interest(id, connection);
}

void AgentServer::update_interest(Id id, Connection& connection) {
  const uint32_t in = connection.postponed ? 0u : EPOLLIN;
  const uint32_t out = connection.outgoing.empty() || connection.send_stalled ? 0u : EPOLLOUT;
  if ((in | out) == connection.interest) return;
  if (poll_.modify(connection.socket.get(), in | out, tag_of(Source::socket, id)).ok()) connection.interest = in | out;
}

void AgentServer::post(Incarnation to, const ToMember& message, Descriptors descriptors, Incarnation introduces) {
  const Id id = members_.at(to);
  connections_.at(id).outgoing.push(encode(message), std::move(descriptors), introduces);
  to_flush_.insert(id);
}

void AgentServer::post_peer(Incarnation to, const MemberRecord& whom, bool knows_us) {
  const Peer message{.incarnation = whom.incarnation.value,
                     .start_time = whom.start_time,
                     .segment_size = whom.segment_size,
                     .pid = whom.pid,
                     .knows_us = knows_us,
                     .slots = SlotList::of(whom.slots)};
  post(to, message, whom.descriptors, whom.incarnation);
}

void AgentServer::post_peer_slot(Incarnation to, Incarnation whom, Slot slot) {
  post(to, PeerSlot{whom.value, slot.value});
}

void AgentServer::post_dead(Incarnation to, Incarnation whom, pid_t pid) { post(to, Dead{whom.value, pid}); }

void AgentServer::post_everyone(Incarnation to) { post(to, Everyone{}); }

void AgentServer::post_unowned(Incarnation to, Slot slot) { post(to, Unowned{slot.value}); }

}  // namespace verbatim::agent
