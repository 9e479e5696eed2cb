#include "agent/launcher.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <variant>
#include <vector>

#include "agent/admission.h"
#include "agent/message_socket.h"
#include "agent/patience.h"
#include "agent/protocol.h"
#include "agent/spawn.h"
#include "base/time.h"

namespace verbatim::agent {
namespace {

// As long as the start of a process may take on a machine that is busy with others.
constexpr Duration kPatience = Duration::milliseconds(10'000);
constexpr Duration kFirstPause = Duration::milliseconds(1);
constexpr Duration kLongestPause = Duration::milliseconds(50);

// What a program's environment says to its libraries is not for the agent, which serves other programs too. Of a
// program with more rights than its caller (AT_SECURE), nothing is: it would have the agent write where the caller
// says.
std::vector<std::string> agent_environment(const AgentIdentity& identity) {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "VERBATIM_LOG"}) {
    if (const char* value = ::secure_getenv(name)) environment.push_back(std::string(name) + "=" + value);
  }
  if (!identity.tag.empty()) environment.push_back(std::string(kTagVariable) + "=" + identity.tag);
  return environment;
}

Status start_agent(const AgentIdentity& identity, const std::string& path) {
  const std::vector<std::string> arguments{path, "--listen-fd", std::to_string(kListenDescriptor)};
  return spawn_listening(identity.agent_name(), path, arguments, agent_environment(identity));
}

// ECONNREFUSED: nobody listens. EAGAIN: the backlog is full.
Result<FileDescriptor> connect_to(const AbstractName& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status{errno};
  const Status enabled = enable_credentials(socket.get());
  if (!enabled.ok()) return enabled;
  if (::connect(socket.get(), name.get(), name.length) != 0) return Status{errno};
  return socket;
}

// Our memory goes to nobody before it has proved to be one of us: the name is free for all who share the network
// namespace. ECONNRESET: the agent was about to end.
Status await_welcome(int socket, const AgentIdentity& identity, Patience& patience) {
  const Status readable = await_readable(socket, patience);
  if (!readable.ok()) return readable;
  const Result<Packet> packet = receive_packet(socket);
  if (!packet.ok()) return packet.status();
  const Status trusted = check_agent(packet.value().sender.pid, packet.value().sender.uid, identity);
  if (!trusted.ok()) return trusted;
  const Result<ToMember> message = decode_to_member(packet.value().frame.view(), packet.value().descriptors.size());
  if (!message.ok()) return message.status();
  if (std::holds_alternative<Welcome>(message.value())) return Status::success();
  return {std::holds_alternative<Refused>(message.value()) ? EACCES : EPROTO};
}

void pause(Duration length) {
  const timespec time{length.ns / 1'000'000'000, length.ns % 1'000'000'000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

// Every failure that somebody else's start or end can cause is tried again; EADDRINUSE: another process starts it.
Result<FileDescriptor> connect_or_start(const AgentIdentity& identity, const std::string& agent_path) {
  Patience patience(kPatience);
  Duration next_pause = kFirstPause;
  for (;;) {
    Result<FileDescriptor> socket = connect_to(identity.agent_name());
    Status status = socket.status();
    if (socket.ok()) {
      status = await_welcome(socket.value().get(), identity, patience);
      if (status.ok()) return socket;
    } else if (status.error == ECONNREFUSED) {
      status = start_agent(identity, agent_path);
      if (status.ok()) status = {EAGAIN};
    }
    const bool passes =
        status.error == EAGAIN || status.error == EADDRINUSE || status.error == ECONNRESET || status.error == ESRCH;
    if (!passes) return status;
    if (patience.over()) return Status{ETIMEDOUT};
    pause(next_pause);
    patience.spend(next_pause, next_pause);
    next_pause = std::min(next_pause * 2, kLongestPause);
  }
}

}  // namespace verbatim::agent
