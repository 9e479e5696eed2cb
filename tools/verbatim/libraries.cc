#include "libraries.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbatim::tool {
namespace fs = std::filesystem;
namespace {

bool holds(const fs::path& folder, const Library& library) {
  std::error_code ignored;
  return fs::is_regular_file(folder / library.file, ignored);
}

SearchPath refuse(std::string sentence) { return {{}, std::move(sentence)}; }

SearchPath every_library(const fs::path& folder) {
  const auto& known = known_libraries();
  if (std::none_of(known.begin(), known.end(), [&](const Library& l) { return holds(folder, l); }))
    return refuse(fmt::format("no library of ours is in {}: is the installation complete?", folder.string()));
  return {{folder}, ""};
}

SearchPath chosen_libraries(const fs::path& folder, const std::vector<std::string>& only) {
  const auto& known = known_libraries();
  SearchPath path;
  for (const std::string& name : only) {
    const auto library = std::find_if(known.begin(), known.end(), [&](const Library& l) { return l.name == name; });
    if (library == known.end())
      return refuse(fmt::format("--only {}: no such library; there are ibverbs, rdmacm and rpma", name));
    const fs::path link_folder = folder / "only" / name;
    if (!holds(link_folder, *library))
      return refuse(fmt::format("--only {}: this installation has no {}", name, library->file));
    path.folders.push_back(link_folder);
  }
  return path;
}

}  // namespace

const std::vector<Library>& known_libraries() {
  static const std::vector<Library> table = {
      {"ibverbs", "libibverbs.so.1"},
      {"rdmacm", "librdmacm.so.1"},
      {"rpma", "librpma.so.0"},
  };
  return table;
}

fs::path library_folder() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return executable.parent_path().parent_path() / "lib" / "verbatim";
}

SearchPath search_path(const fs::path& folder, const std::vector<std::string>& only) {
  // The loader splits its path at these and knows no escape.
  if (folder.string().find_first_of(":;") != std::string::npos)
    return refuse(fmt::format("{} holds a ':' or ';', which LD_LIBRARY_PATH cannot carry: move the installation",
                              folder.string()));
  return only.empty() ? every_library(folder) : chosen_libraries(folder, only);
}

}  // namespace verbatim::tool
