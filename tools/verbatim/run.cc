#include "run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "environment.h"
#include "libraries.h"
#include "program.h"

namespace verbatim::tool {
namespace {

constexpr const char* kLoaderPath = "LD_LIBRARY_PATH";

// Ours first, then what was there. An empty element would mean the current folder, so none is made.
std::string loader_path(const SearchPath& ours) {
  std::string path;
  for (const auto& folder : ours.folders) path += (path.empty() ? "" : ":") + folder.string();
  const char* before = std::getenv(kLoaderPath);
  if (before && *before) path += std::string(":") + before;
  return path;
}

int fail(int exit_status, const std::string& sentence) {
  fmt::print(stderr, "verbatim: {}\n", sentence);
  return exit_status;
}

}  // namespace

int run(const RunRequest& request) {
  for (const std::string& complaint : complaints(environ)) fmt::print(stderr, "verbatim: warning: {}\n", complaint);

  const SearchPath ours = search_path(library_folder(), request.only);
  if (!ours.refusal.empty()) return fail(kCannotRun, ours.refusal);

  const Program program = find_program(request.program[0]);
  if (program.exit_status != 0) return fail(program.exit_status, program.refusal);

  ::setenv(kLoaderPath, loader_path(ours).c_str(), 1);
  std::string file = program.file.string();
  if (file.find('/') == std::string::npos) file.insert(0, "./");
  // execvp, for its way with scripts that have no #! line.
  ::execvp(file.c_str(), request.program);
  return fail(errno == ENOENT ? kNotFound : kCannotRun, fmt::format("{}: {}", file, std::strerror(errno)));
}

}  // namespace verbatim::tool
