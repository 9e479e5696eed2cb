#include "installation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

namespace verbatim::tool {
namespace {

Check judge_library(const Installation& installation) {
  if (installation.library_complaint.empty())
    return {Mark::ok, "library", fmt::format("{} loads", (installation.folder / "libibverbs.so.1").string()),
            "'verbatim run' puts it before the system's."};
  return {Mark::missing, "library", installation.library_complaint,
          "No program finds the device: install Verbatim anew."};
}

Check judge_agent(const Installation& installation) {
  const std::string file = (installation.folder / "verbatim-agent").string();
  if (installation.agent_error == 0)
    return {Mark::ok, "agent", fmt::format("{} can be started", file),
            "The first program that needs a peer starts it; it ends with the last."};
  return {Mark::missing, "agent", fmt::format("{}: {}", file, std::strerror(installation.agent_error)),
          "No process meets another: it reaches only itself. Install Verbatim anew."};
}

Check judge_other_libraries(const Installation& installation) {
  if (!installation.preloaded.empty())
    return {Mark::missing, "other libraries",
            fmt::format("LD_PRELOAD names {}", fmt::join(installation.preloaded, ", ")),
            "Programs get that library instead of Verbatim's: take it out of LD_PRELOAD."};
  if (!installation.other_folders.empty())
    return {Mark::note, "other libraries",
            fmt::format("LD_LIBRARY_PATH leads to another libibverbs.so.1 in {}",
                        fmt::join(installation.other_folders, ", ")),
            "'verbatim run' comes before it; a program that is started without gets the other."};
  return {Mark::ok, "other libraries", "no libibverbs in LD_PRELOAD or LD_LIBRARY_PATH is in the way",
          "Programs under 'verbatim run' get Verbatim's."};
}

Check judge_rdma_devices(const Installation& installation) {
  if (installation.rdma_devices.empty()) return {Mark::ok, "RDMA devices", "the kernel has none", "None is needed."};
  return {Mark::ok, "RDMA devices", fmt::format("the kernel has {}", fmt::join(installation.rdma_devices, ", ")),
          "Verbatim does not use them: programs under 'verbatim run' see verbatim0 alone."};
}

}  // namespace

std::vector<Check> judge(const Installation& installation) {
  return {judge_library(installation), judge_agent(installation), judge_other_libraries(installation),
          judge_rdma_devices(installation)};
}

}  // namespace verbatim::tool
