// Commands to the connection manager and their answers (cm_commands.h) as messages: on a connection that began with
// MANAGE (protocol.h), one answer follows each command, in their order. Whatever decode() returns is valid. Plain
// functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "agent/cm_commands.h"
#include "agent/frame.h"
#include "base/result.h"

namespace verbatim::agent {

Frame encode(const commands::Command& command);
Frame encode(const commands::Answer& answer);

// EPROTO: malformed. EPROTONOSUPPORT: another version of the protocol.
Result<commands::Command> decode_command(std::span<const std::byte> bytes, size_t descriptors);
Result<commands::Answer> decode_answer(std::span<const std::byte> bytes, size_t descriptors);

}  // namespace verbatim::agent
