#include "memory_cgroup.h"

#include <charconv>
#include <sstream>

#include "text_file.h"

namespace verbatim::tool {
namespace fs = std::filesystem;
namespace {

// Version 1 says "no limit" by the largest number of pages there is.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

struct Version {
  const char* mount;  // below the root
  const char* limit;
  const char* used;
};

constexpr Version kVersion1{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr Version kVersion2{"", "memory.max", "memory.current"};

// "max" is no number.
std::optional<uint64_t> read_number(const fs::path& path) {
  const std::optional<std::string> text = read_text(path);
  uint64_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

void look_upwards(const Version& version, const fs::path& root, const fs::path& group,
                  std::optional<MemoryBudget>& tightest) {
  const fs::path top = root / version.mount;
  for (fs::path here = group.relative_path();; here = here.parent_path()) {
    const std::optional<uint64_t> limit = read_number(top / here / version.limit);
    const std::optional<uint64_t> used = read_number(top / here / version.used);
    if (limit && used && *limit < kNoLimit) {
      const MemoryBudget budget{*limit, *used};
      if (!tightest || budget.free() < tightest->free()) tightest = budget;
    }
    if (here.empty()) return;
  }
}

bool lists_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::optional<MemoryBudget> memory_budget(const std::string& membership, const fs::path& root) {
  std::optional<MemoryBudget> tightest;
  std::istringstream lines(membership);
  // HIERARCHY:CONTROLLERS:PATH; no controllers stand for version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) look_upwards(kVersion2, root, group, tightest);
    if (lists_memory(controllers)) look_upwards(kVersion1, root, group, tightest);
  }
  return tightest;
}

}  // namespace verbatim::tool
