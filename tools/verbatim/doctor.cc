#include "doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "check.h"
#include "installation.h"
#include "limits.h"
#include "place.h"
#include "reach.h"
#include "services.h"
#include "settings.h"

namespace verbatim::tool {
namespace {

// The library is loaded last: the children of the other trials shall not have it.
std::vector<Check> all_checks() {
  std::vector<Check> checks;
  const auto add = [&](std::vector<Check> found) { checks.insert(checks.end(), found.begin(), found.end()); };
  add(judge(probe_reach()));
  add(judge(probe_services()));
  add(judge(probe_place()));
  add(judge(probe_limits()));
  add(judge_settings(environ));
  add(judge(probe_installation()));
  return checks;
}

}  // namespace

int examine_machine() {
  const std::vector<Check> checks = all_checks();
  for (const Check& check : checks) fmt::print("{}\n", line(check));
  const std::vector<std::string> missing = missing_names(checks);
  if (missing.empty()) {
    fmt::print("Programs can run here.\n");
    return 0;
  }
  fmt::print("Programs cannot run here as on an RDMA NIC: see {}.\n", fmt::join(missing, ", "));
  return 1;
}

}  // namespace verbatim::tool
