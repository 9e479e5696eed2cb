#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "installation.h"
#include "libraries.h"

namespace verbatim::tool {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLibrary = "libibverbs.so.1";

std::vector<std::string> split(const char* list, const char* separators) {
  std::vector<std::string> parts;
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(separators), rest.size());
    if (end > 0) parts.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parts;
}

bool is_another(const fs::path& file, const fs::path& ours) {
  std::error_code error;
  return fs::exists(file, error) && !fs::equivalent(file, ours, error);
}

std::string complaint_about(const fs::path& library) {
  // By its whole name, so that no search path has a say.
  return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) ? "" : ::dlerror();
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

Installation probe_installation() {
  Installation found;
  found.folder = library_folder();
  const fs::path ours = found.folder / kLibrary;
  found.library_complaint = complaint_about(ours);
  // 'verbatim run' could not tell the loader.
  if (const SearchPath path = search_path(found.folder, {}); !path.refusal.empty())
    found.library_complaint = path.refusal;
  if (::access((found.folder / "verbatim-agent").c_str(), X_OK) != 0) found.agent_error = errno;
  for (const std::string& folder : split(std::getenv("LD_LIBRARY_PATH"), ":;"))
    if (is_another(fs::path(folder) / kLibrary, ours)) found.other_folders.push_back(folder);
  for (const std::string& file : split(std::getenv("LD_PRELOAD"), ": "))
    if (fs::path(file).filename().string().starts_with("libibverbs.so") && is_another(file, ours))
      found.preloaded.push_back(file);
  found.rdma_devices = names_in("/sys/class/infiniband");
  return found;
}

}  // namespace verbatim::tool
