#include "agent/installed_agent.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace verbatim::agent {

std::string installed_agent_path() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&installed_agent_path), &info) || !info.dli_fname) return "";
  std::error_code error;
  const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, error);
  return error ? "" : (library.parent_path() / "verbatim-agent").string();
}

}  // namespace verbatim::agent
