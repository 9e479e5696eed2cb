// `verbatim run`: an unmodified program, on our libraries.
#pragma once

#include <string>
#include <vector>

namespace verbatim::tool {

struct RunRequest {
  std::vector<std::string> only;  // library names; empty: all
  char** program = nullptr;       // PROGRAM ARGS…, null-terminated, as main() got them
};

// Replaces this process by the program with our folders first in LD_LIBRARY_PATH; nothing else of its environment
// changes. Returns only when it cannot: the exit status, after a sentence on stderr.
int run(const RunRequest& request);

}  // namespace verbatim::tool
