// How much memory the control groups of this process leave it (cgroups(7)), in either version.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace verbatim::tool {

struct MemoryBudget {
  uint64_t limit = 0;  // bytes
  uint64_t used = 0;   // the page cache counts too
  uint64_t free() const { return used < limit ? limit - used : 0; }
};

// The tightest of the process's own group and those above it; nothing where no limit is set or can be read.
// `membership`: the text of /proc/self/cgroup; `root`: where the hierarchies are mounted.
std::optional<MemoryBudget> memory_budget(const std::string& membership, const std::filesystem::path& root);

}  // namespace verbatim::tool
