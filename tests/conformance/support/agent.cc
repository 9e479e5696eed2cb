#include "conformance/support/agent.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace verbatim::conformance {
namespace {

// Empty when the process has ended, or is another user's.
std::string read(const std::filesystem::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

}  // namespace

std::vector<pid_t> agents() {
  const std::string variable = "VERBATIM_AGENT_TAG=";
  const std::string wanted = variable + std::getenv("VERBATIM_AGENT_TAG") + '\0';
  std::vector<pid_t> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read(process.path() / "comm") != "verbatim-agent\n") continue;
    if (read(process.path() / "environ").find(wanted) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace verbatim::conformance
