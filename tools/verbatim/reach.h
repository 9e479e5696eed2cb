// Whether a process can reach the memory of another one of the same user, and by which ways.
#pragma once

#include <vector>

#include "check.h"

namespace verbatim::tool {

struct Reach {
  // Yama's rule (kernel documentation, admin-guide/LSM/Yama); 0 also where there is no Yama.
  int ptrace_scope = 0;
  bool may_ptrace = false;      // CAP_SYS_PTRACE is effective
  bool seccomp_filter = false;  // some system calls may be refused
  int copy_error = 0;           // errno of process_vm_readv and process_vm_writev between two siblings; 0: they work
  int map_error = 0;            // likewise of mapping a sibling's file by way of /proc/PID/fd
};

// By trying, with two children that are no ancestors of each other.
Reach probe_reach();

std::vector<Check> judge(const Reach& reach);

}  // namespace verbatim::tool
