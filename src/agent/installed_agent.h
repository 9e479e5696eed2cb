// The agent's program, as it was installed.
#pragma once

#include <string>

namespace verbatim::agent {

// It lies beside the library that this code is in, wherever its folder was moved to. Empty: that cannot be told.
// Thread-safe.
std::string installed_agent_path();

}  // namespace verbatim::agent
