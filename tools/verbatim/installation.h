// What programs will load: the library of this installation, its agent, and what may come before them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "check.h"

namespace verbatim::tool {

struct Installation {
  std::filesystem::path folder;   // of the libraries
  std::string library_complaint;  // why libibverbs.so.1 does not load; empty: it does
  int agent_error = 0;            // errno of access(2) for running verbatim-agent
  // Folders in LD_LIBRARY_PATH with another libibverbs.so.1, as they stand there.
  std::vector<std::string> other_folders;
  // Files in LD_PRELOAD that are another libibverbs.
  std::vector<std::string> preloaded;
  // Names in /sys/class/infiniband.
  std::vector<std::string> rdma_devices;
};

Installation probe_installation();

std::vector<Check> judge(const Installation& installation);

}  // namespace verbatim::tool
