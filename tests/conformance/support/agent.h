// The agent of this test's processes, as any program could find it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace verbatim::conformance {

// More than one while a new agent has begun and the former has not quite ended.
std::vector<pid_t> agents();

}  // namespace verbatim::conformance
