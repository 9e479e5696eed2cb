// May the process at the other end of this connection be a member? The kernel says who it is (SO_PEERCRED), /proc says
// what it is. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <variant>

#include "agent/identity.h"
#include "agent/protocol.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::agent {

struct Admission {
  pid_t pid = 0;
  uint64_t start_time = 0;
  FileDescriptor pidfd;  // readable when the process has ended
};

// Requires a connected socket that the agent accepted.
std::variant<Admission, Refusal> examine(int socket, const AgentIdentity& identity);

// For a member: is the process that sent WELCOME one that `identity` may trust with its memory? EPERM: it is not.
Status check_agent(pid_t pid, uint32_t uid, const AgentIdentity& identity);

}  // namespace verbatim::agent
