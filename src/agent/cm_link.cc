#include "agent/cm_link.h"

#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <variant>

#include "agent/brief_wait.h"
#include "agent/cm_protocol.h"
#include "agent/launcher.h"
#include "agent/patience.h"
#include "agent/process.h"
#include "agent/protocol.h"
#include "base/log.h"
#include "base/no_cancellation.h"

namespace verbatim::agent {
namespace {

constexpr Duration kPatience = Duration::milliseconds(30'000);

}  // namespace

Result<std::shared_ptr<CmLink>> CmLink::open(const AgentIdentity& identity, const std::string& agent_path) {
  const NoCancellation guard;
  Result<FileDescriptor> socket = connect_or_start(identity, agent_path);
  if (!socket.ok()) return socket.status();
  const Result<uint64_t> start_time = read_start_time(::getpid());
  if (!start_time.ok()) return start_time.status();
  const Status said = send_packet(socket.value().get(), encode(ToAgent(Manage{start_time.value()})), {});
  if (!said.ok()) return said;
  return std::make_shared<CmLink>(socket.take());
}

bool CmLink::is_broken() const {
  if (is_copy()) return true;
  const std::lock_guard lock(mutex_);
  return !socket_.valid();
}

Status CmLink::tell(const commands::Command& command) {
  if (is_copy()) return {ENODEV};
  const NoCancellation guard;
  const std::lock_guard lock(mutex_);
  if (!socket_.valid()) return {ENODEV};
  const Status said = say(encode(command), -1);
  return said.ok() ? said : give_up(nullptr, said.error);
}

Status CmLink::tell_later(const commands::Command& command) {
  if (is_copy()) return {ENODEV};
  const std::lock_guard lock(mutex_);
  if (!socket_.valid()) return {ENODEV};
  later_.push_back(encode(command));
  return Status::success();
}

Result<commands::Answer> CmLink::exchange(const commands::Command& command, FileDescriptor* channel, int socket) {
  if (is_copy()) return Status{ENODEV};  // a thread that is not here may hold the lock
  const NoCancellation guard;
  const std::lock_guard lock(mutex_);
  if (!socket_.valid()) return Status{ENODEV};
  Result<Packet> packet = ask(encode(command), socket);
  if (packet.error() == EMFILE) return Status{EMFILE};
  if (!packet.ok()) return give_up(nullptr, packet.error());
  Packet& received = packet.value();
  Result<commands::Answer> answer = decode_answer(received.frame.view(), received.descriptors.size());
  if (!answer.ok()) return give_up(&received, answer.error());
  if (const auto* failure = std::get_if<commands::Failure>(&answer.value())) return Status{failure->error};
  if (channel && !received.descriptors.empty()) *channel = std::move(received.descriptors.front());
  return answer;
}

Status CmLink::say(const Frame& command, int socket) {
  for (const Frame& earlier : later_)
    if (const Status sent = send(earlier, -1); !sent.ok()) return sent;
  later_.clear();
  return send(command, socket);
}

// What has no answer may come faster than the agent reads it.
Status CmLink::send(const Frame& command, int socket) {
  said_.fetch_add(1, std::memory_order_release);  // pairs with follow_what_was_said()
  Patience patience(kPatience);
  for (;;) {
    const Status sent = send_packet(socket_.get(), command, {&socket, socket < 0 ? 0u : 1u});
    if (sent.error != EAGAIN) return sent;
    if (const Status writable = await_writable(socket_.get(), patience); !writable.ok()) return writable;
  }
}

Result<Packet> CmLink::ask(const Frame& command, int socket) {
  if (const Status said = say(command, socket); !said.ok()) return said;
  Result<Packet> answer = Status{EAGAIN};
  const auto is_there = [&] { return (answer = receive_packet(socket_.get())).error() != EAGAIN; };
  if (wait_briefly(is_there)) return answer;
  Patience patience(kPatience);
  if (const Status readable = await_readable(socket_.get(), patience); !readable.ok()) return readable;
  return receive_packet(socket_.get());
}

// What was asked may have been done or not: there is no going on.
Status CmLink::give_up(const Packet* packet, int error) {
  socket_.reset();
  std::string_view why = ::strerrordesc_np(error);
  if (packet) {
    const Result<ToMember> message = decode_to_member(packet->frame.view(), packet->descriptors.size());
    const Refused* const refused = message.ok() ? std::get_if<Refused>(&message.value()) : nullptr;
    if (refused) why = describe(Refusal{refused->reason});
  }
  log(LogLevel::warn, "connections by address: the agent is of no use any more: {}", why);
  return {ENODEV};
}

}  // namespace verbatim::agent
