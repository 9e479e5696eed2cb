#include "settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "environment.h"

namespace verbatim::tool {
namespace {

bool is_taken(const char* entry) {
  const char* alone[] = {entry, nullptr};
  return std::string_view(entry).starts_with("VERBATIM_") && complaints(alone).empty();
}

}  // namespace

std::vector<Check> judge_settings(const char* const* environment) {
  std::vector<Check> checks;
  for (const std::string& complaint : complaints(environment))
    checks.push_back({Mark::note, "environment", complaint, "See verbatim(7) for those it knows."});
  std::vector<std::string_view> taken;
  for (; *environment; ++environment)
    if (is_taken(*environment)) taken.emplace_back(*environment);
  if (!taken.empty())
    checks.push_back({Mark::ok, "environment", fmt::format("{}", fmt::join(taken, ", ")),
                      "Programs that are started from here take this up."});
  else if (checks.empty())
    checks.push_back({Mark::ok, "environment", "no VERBATIM_ variable is set", "None is needed."});
  return checks;
}

}  // namespace verbatim::tool
