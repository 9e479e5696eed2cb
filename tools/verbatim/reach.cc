#include "reach.h"

#include <fmt/format.h>

#include <cerrno>

#include "trial.h"

namespace verbatim::tool {
namespace {

constexpr const char* kByTheOwner =
    "Memory that is not of a shared file (MAP_SHARED) is reached by the program that owns it alone, which answers in "
    "parts of 8 KiB.";

Check judge_ptrace_scope(const Reach& reach) {
  Check check{Mark::ok, "ptrace scope", fmt::format("kernel.yama.ptrace_scope is {}", reach.ptrace_scope), ""};
  switch (reach.ptrace_scope) {
    case 0:
      check.finding = "kernel.yama.ptrace_scope is 0 or absent";
      check.consequence = "Processes of one user may reach each other's memory.";
      return check;
    case 1:
      check.consequence = "Each process allows its peers to reach its memory (PR_SET_PTRACER) when it meets the first.";
      return check;
    case 2:
      if (reach.may_ptrace) {
        check.mark = Mark::note;
        check.finding += ", and this process has CAP_SYS_PTRACE";
        check.consequence = "Only processes with that capability reach each other's memory.";
        return check;
      }
      check.finding += ", and this process has no CAP_SYS_PTRACE";
      break;
    default:
      break;
  }
  check.mark = Mark::slower;
  check.consequence = fmt::format("{} An administrator can set it to 1{}.", kByTheOwner,
                                  reach.ptrace_scope == 2 ? "" : " by starting the machine anew");
  return check;
}

bool scope_forbids(const Reach& reach) {
  return reach.ptrace_scope > 2 || (reach.ptrace_scope == 2 && !reach.may_ptrace);
}

const char* why_not_copied(const Reach& reach) {
  if (reach.copy_error == EMFILE) return "The limit of descriptors is why.";
  if (scope_forbids(reach)) return "The ptrace scope is why.";
  if (reach.seccomp_filter)
    return "The seccomp filter may be why: let it allow process_vm_readv and process_vm_writev.";
  if (reach.copy_error == ENOSYS) return "This kernel or sandbox does not have these calls.";
  return "A security module may be why.";
}

Check judge_copying(const Reach& reach) {
  if (reach.copy_error == 0)
    return {
        Mark::ok, "peer memory", "one process reads and writes another's (process_vm_readv, process_vm_writev)",
        "Ordinary memory is reached by a system call for each 64 KiB; atomic operations on it are done by the program "
        "that owns it."};
  const std::string finding =
      fmt::format("process_vm_readv or process_vm_writev: {}", describe_trial(reach.copy_error));
  if (reach.copy_error == kKilled)
    return {Mark::missing, "peer memory", finding,
            "So is a program that does RDMA. The seccomp filter is why: let it answer with EPERM at least."};
  return {Mark::slower, "peer memory", finding, fmt::format("{} {}", kByTheOwner, why_not_copied(reach))};
}

Check judge_mapping(const Reach& reach) {
  if (reach.map_error == 0)
    return {Mark::ok, "shared files", "one process maps another's file (/proc/PID/fd)",
            "Memory of a shared file is reached without a system call, which is the fastest way."};
  const bool copied = reach.copy_error == 0;
  return {Mark::slower, "shared files",
          fmt::format("/proc/PID/fd of another process: {}", describe_trial(reach.map_error)),
          copied ? "Memory of a shared file is reached by system calls, as other memory is, and atomic operations wait "
                   "for the program that owns it."
                 : "Memory of a shared file is reached by the program that owns it alone, as other memory is."};
}

Check judge_seccomp(const Reach& reach) {
  if (!reach.seccomp_filter) return {Mark::ok, "seccomp", "no filter", "No system call is kept from programs."};
  return {Mark::ok, "seccomp", "a filter is active, as in most containers",
          "What it keeps from programs shows in the other lines."};
}

}  // namespace

std::vector<Check> judge(const Reach& reach) {
  return {judge_ptrace_scope(reach), judge_seccomp(reach), judge_copying(reach), judge_mapping(reach)};
}

}  // namespace verbatim::tool
