// Finds the program to run and says beforehand why our libraries could not reach it: the loader would drop the
// library path without a word, and the program would find no device.
#pragma once

#include <filesystem>
#include <string>

namespace verbatim::tool {

// Exit statuses of `verbatim run` when the program is not started, as env(1) and the shells use them.
inline constexpr int kCannotRun = 126;
inline constexpr int kNotFound = 127;

struct Program {
  std::filesystem::path file;
  int exit_status = 0;  // 0: fit to run
  std::string refusal;  // a sentence, when exit_status is not 0
};

// Looks `name` up as execvp would, then checks the file: executable, not raising privileges (setuid, setgid, file
// capabilities), dynamically linked, for this machine. A script or another non-ELF file passes: its interpreter is
// the one that loads libraries.
Program find_program(const std::string& name);

}  // namespace verbatim::tool
