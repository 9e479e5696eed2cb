// The way to the agent, which is started if there is none. Thread-safe.
#pragma once

#include <string>

#include "agent/identity.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::agent {

// A non-blocking socket on which the agent has said WELCOME and was found to be of this identity; nothing has been
// sent. Waits for the agent's answer, at most about ten seconds. EPERM: who listens there is not of this identity.
// EACCES: the agent refused us. ETIMEDOUT: no answer (a stopped agent does not give one). Otherwise why the agent could
// not be started.
Result<FileDescriptor> connect_or_start(const AgentIdentity& identity, const std::string& agent_path);

}  // namespace verbatim::agent
