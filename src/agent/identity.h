// Who an agent serves: one user, in one user namespace and one PID namespace. Both sides of every connection hold the
// other to this, because an abstract socket name is visible to everybody in the network namespace (abstract(7)).
// Plain values, thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace verbatim {

// Inode numbers of /proc/PID/ns/user and /proc/PID/ns/pid (namespaces(7)): equal numbers, same namespace.
struct NamespaceIds {
  uint64_t user = 0;
  uint64_t pid = 0;
  auto operator<=>(const NamespaceIds&) const = default;
};

// An abstract socket address, ready for bind() and connect().
struct AbstractName {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

struct AgentIdentity {
  uint32_t uid = 0;
  NamespaceIds namespaces;
  // Appended to every name, so that tests never meet the user's real agent: at most 32 of [A-Za-z0-9_-]. Comes from
  // the environment variable VERBATIM_AGENT_TAG, a hook for tests.
  std::string tag;

  // EPERM: real, effective and saved user differ, so no single user can be served. EINVAL: the tag is malformed.
  // Otherwise why /proc/self could not be read.
  static Result<AgentIdentity> of_this_process();

  // Where the agent listens (SOCK_SEQPACKET).
  AbstractName agent_name() const;
  // What the owner of a slot is bound to (slot_claim.h).
  AbstractName slot_name(Slot slot) const;
  // What the process is bound to whose XRC domain belongs to this file (runtime/xrc_domains.h): st_dev and st_ino. They
  // and the rest of the identity are one number in it, for want of room.
  AbstractName xrc_domain_name(uint64_t device, uint64_t inode) const;
};

inline constexpr const char* kTagVariable = "VERBATIM_AGENT_TAG";

bool is_valid_tag(std::string_view tag);

}  // namespace verbatim
