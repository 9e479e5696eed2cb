// Trying out what this machine allows, in a child: what a trial changes dies with it, and a sandbox that kills who
// makes a forbidden call kills only the child.
#pragma once

#include <functional>
#include <string>

namespace verbatim::tool {

// What no errno is.
inline constexpr int kKilled = 255;

// Runs `trial` in a forked child. Returns the errno value (below 255) that it returned, 0 being success; kKilled when
// it was killed; or why there is no child. For a process of one thread.
int try_in_child(const std::function<int()>& trial);
// The same in words.
std::string describe_trial(int error);

}  // namespace verbatim::tool
