// Where the libraries of this installation are. Found from the tool's own executable, so a prefix may be moved.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::tool {

struct Library {
  std::string_view name;  // what --only calls it
  std::string_view file;  // the soname that programs ask the loader for
};

// Every library a release may hold, built here or not.
const std::vector<Library>& known_libraries();

// <prefix>/lib/verbatim for a tool in <prefix>/bin. Not checked to exist.
std::filesystem::path library_folder();

// The folders to put before a program's LD_LIBRARY_PATH, or why that cannot be done.
struct SearchPath {
  std::vector<std::filesystem::path> folders;
  std::string refusal;  // a sentence; empty on success
};

// All libraries of the installation, or just those in `only` when it names any. A name that is not in
// known_libraries(), or that this installation does not hold, is refused.
SearchPath search_path(const std::filesystem::path& folder, const std::vector<std::string>& only);

}  // namespace verbatim::tool
