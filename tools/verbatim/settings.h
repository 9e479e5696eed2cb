// The VERBATIM_* variables that are set, as `verbatim doctor` shows them.
#pragma once

#include <vector>

#include "check.h"

namespace verbatim::tool {

// `environment`: a null-terminated array of NAME=VALUE. A check for each variable that the libraries will ignore
// (environment.h), and one for those that they take.
std::vector<Check> judge_settings(const char* const* environment);

}  // namespace verbatim::tool
