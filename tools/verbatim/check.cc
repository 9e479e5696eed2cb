#include "check.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbatim::tool {

std::string_view mark_name(Mark mark) {
  switch (mark) {
    case Mark::ok:
      return "ok";
    case Mark::note:
      return "note";
    case Mark::slower:
      return "slower";
    case Mark::missing:
      return "missing";
  }
  return "";
}

std::string line(const Check& check) {
  return fmt::format("{:<8} {}: {}. {}", mark_name(check.mark), check.name, check.finding, check.consequence);
}

std::vector<std::string> missing_names(const std::vector<Check>& checks) {
  std::vector<std::string> names;
  for (const Check& check : checks)
    if (check.mark == Mark::missing && std::ranges::find(names, check.name) == names.end()) names.push_back(check.name);
  return names;
}

}  // namespace verbatim::tool
