#include "agent/admission.h"

#include <sys/socket.h>

#include <cerrno>

#include "agent/process.h"

namespace verbatim::agent {
namespace {

// Linux 6.5; absent from Debian 12's headers. Unlike a pid it cannot come to mean another process.
constexpr int kSoPeerPidfd = 77;

Result<pid_t> peer_pid(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return Status{errno};
  if (credentials.pid <= 0) return Status{EPERM};  // it has no number in our PID namespace
  return credentials.pid;
}

Result<FileDescriptor> peer_pidfd(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0) return FileDescriptor(fd);
  if (errno == EMFILE || errno == ENFILE) return Status{errno};
  return open_pidfd(pid);
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

}  // namespace

std::variant<Admission, Refusal> examine(int socket, const AgentIdentity& identity) {
  const Result<pid_t> pid = peer_pid(socket);
  if (!pid.ok()) return Refusal::other_namespace;
  Result<FileDescriptor> pidfd = peer_pidfd(socket, pid.value());
  if (!pidfd.ok()) return is_shortage(pidfd.error()) ? Refusal::out_of_descriptors : Refusal::other_process;

  const Result<ProcessFacts> facts = read_facts(pid.value());
  if (!facts.ok()) return is_shortage(facts.error()) ? Refusal::out_of_descriptors : Refusal::process_unreadable;
  // Had it ended, the facts could be those of the next process with its number.
  if (has_ended(pidfd.value().get())) return Refusal::other_process;
  if (!facts.value().users.all_are(identity.uid)) return Refusal::other_user;
  if (facts.value().namespaces != identity.namespaces) return Refusal::other_namespace;
  return Admission{pid.value(), facts.value().start_time, pidfd.take()};
}

Status check_agent(pid_t pid, uint32_t uid, const AgentIdentity& identity) {
  if (pid <= 0 || uid != identity.uid) return {EPERM};
  Result<FileDescriptor> pidfd = open_pidfd(pid);
  if (!pidfd.ok()) return pidfd.status();
  const Result<ProcessFacts> facts = read_facts(pid);
  if (!facts.ok()) return {facts.error() == EACCES ? EPERM : facts.error()};
  if (has_ended(pidfd.value().get())) return {ESRCH};
  const bool same = facts.value().users.all_are(identity.uid) && facts.value().namespaces == identity.namespaces;
  return {same ? 0 : EPERM};
}

}  // namespace verbatim::agent
