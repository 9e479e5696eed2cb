// Who this process is and where, which decides whom it can meet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "check.h"

namespace verbatim::tool {

struct Place {
  uint32_t real_user = 0;
  uint32_t effective_user = 0;
  uint32_t saved_user = 0;
  // Inode numbers of /proc/self/ns/*, which name a namespace; nothing where /proc does not show them.
  std::optional<uint64_t> network_namespace;
  std::optional<uint64_t> user_namespace;
  std::optional<uint64_t> pid_namespace;
  int new_user_namespace_error = 0;  // errno of making one; 0: it works
};

Place probe_place();

std::vector<Check> judge(const Place& place);

}  // namespace verbatim::tool
