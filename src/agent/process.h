// What /proc says of a process (proc(5)). Thread-safe; nothing is cached. A process may end, and its number be given to
// another, while it is read: who must know holds a pidfd and asks has_ended() after reading.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/identity.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::agent {

struct UserIds {
  uint32_t real = 0;
  uint32_t effective = 0;
  uint32_t saved = 0;
  bool all_are(uint32_t uid) const { return real == uid && effective == uid && saved == uid; }
};

struct ProcessFacts {
  UserIds users;
  NamespaceIds namespaces;
  // In clock ticks since boot; with the pid it names a process for ever. It survives exec.
  uint64_t start_time = 0;
};

// ESRCH: no such process. EACCES: it does not let us look (it made itself undumpable). EPROTO: unknown format.
Result<ProcessFacts> read_facts(pid_t pid);
Result<ProcessFacts> read_own_facts();

Result<uint64_t> read_start_time(pid_t pid);

// The name in /proc/self/comm, for people; empty if it cannot be read.
std::string read_own_name();

// A descriptor that becomes readable when the process has ended (pidfd_open(2), close-on-exec). ESRCH: it is gone.
Result<FileDescriptor> open_pidfd(pid_t pid);
bool has_ended(int pidfd);

}  // namespace verbatim::agent
