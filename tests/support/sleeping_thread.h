// Whether a thread of this process sleeps (proc_pid_stat(5)). Test code only.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace verbatim::testing_support {

inline bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

}  // namespace verbatim::testing_support
