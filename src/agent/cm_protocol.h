// Commands to the connection manager, their answers and the events of channels (cm_commands.h) as messages. Commands
// and answers travel on a connection that began with MANAGE (protocol.h), where one answer follows each command that
// has one, in their order; events on their channel's socket. Whatever decode() returns is valid. Plain functions,
// thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "agent/cm_commands.h"
#include "agent/frame.h"
#include "base/result.h"

namespace verbatim::agent {

Frame encode(const commands::Command& command);
Frame encode(const commands::Answer& answer);
Frame encode(const commands::Taken& event);

// EPROTO: malformed. EPROTONOSUPPORT: another version of the protocol.
Result<commands::Command> decode_command(std::span<const std::byte> bytes, size_t descriptors);
Result<commands::Answer> decode_answer(std::span<const std::byte> bytes, size_t descriptors);
Result<commands::Taken> decode_event(std::span<const std::byte> bytes);

}  // namespace verbatim::agent
