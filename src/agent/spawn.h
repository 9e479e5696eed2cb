// Starts a program that is not a child of this one: no SIGCHLD, nothing for a wait() of the program to find, no signal
// handler run on the way. Nothing of the start is ever in this process's descriptor table, where a concurrent fork()
// could copy it. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "agent/identity.h"
#include "base/result.h"

namespace verbatim::agent {

inline constexpr int kListenDescriptor = 3;

// Binds `name`, listens there, and runs `path` with the listening socket as kListenDescriptor, standard streams on
// /dev/null, in a process group of its own; no other descriptor is passed on. Environment entries are NAME=VALUE. All
// signals are blocked in the new program until it unblocks them, and ignored ones are ignored. EADDRINUSE: somebody
// listens there already. Otherwise why the program does not run.
Status spawn_listening(const AbstractName& name, const std::string& path, const std::vector<std::string>& arguments,
                       const std::vector<std::string>& environment);

}  // namespace verbatim::agent
