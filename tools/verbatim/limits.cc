#include "limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbatim::tool {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
// Fewer than these are soon used up by a program with many processes, or by what it opens itself.
constexpr uint64_t kFewPeers = 48;
constexpr uint64_t kLittleMemory = 64 * kMebibyte;

std::string size_text(uint64_t bytes) {
  if (bytes == kUnlimited) return "unlimited";
  if (bytes < kMebibyte) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} MiB", bytes / kMebibyte);
}

std::string count_text(uint64_t count) { return count == kUnlimited ? "unlimited" : fmt::format("{}", count); }

Check judge_descriptors(const Limits& limits) {
  Check check{Mark::ok, "descriptors",
              fmt::format("RLIMIT_NOFILE is {} (hard limit {})", count_text(limits.descriptors),
                          count_text(limits.descriptors_hard)),
              ""};
  if (limits.descriptors <= kOwnDescriptors) {
    check.mark = Mark::missing;
    check.consequence = fmt::format("A program needs {} and one for each peer.", kOwnDescriptors);
    return check;
  }
  const uint64_t peers = limits.descriptors - kOwnDescriptors;
  const uint64_t members = limits.descriptors_hard / kAgentDescriptorsPerProcess;
  if (std::min(peers, members) < kFewPeers) check.mark = Mark::note;
  check.consequence = fmt::format(
      "A program needs {} and one for each peer; the agent needs {} for each process, up to the hard limit.",
      kOwnDescriptors, kAgentDescriptorsPerProcess);
  return check;
}

Check judge_locked_memory(const Limits& limits) {
  return {Mark::ok, "locked memory", fmt::format("RLIMIT_MEMLOCK is {}", size_text(limits.locked_memory)),
          "It does not matter: registered memory is not locked."};
}

Check judge_address_space(const Limits& limits) {
  Check check{Mark::ok, "address space", fmt::format("RLIMIT_AS is {}", size_text(limits.address_space)), ""};
  if (limits.address_space == kUnlimited) {
    check.consequence = "Tables are mapped sparsely, so that many peers take little memory.";
    return check;
  }
  check.consequence =
      fmt::format("A program maps {} of sparse tables for itself and again for each peer.", size_text(kTableBytes));
  const uint64_t tables = limits.address_space / kTableBytes;
  if (tables < 2)
    check.mark = Mark::missing;
  else if (tables <= kFewPeers)
    check.mark = Mark::note;
  return check;
}

Check judge_file_size(const Limits& limits) {
  const bool enough = limits.file_size >= kTableBytes;
  return {enough ? Mark::ok : Mark::missing, "file size",
          fmt::format("RLIMIT_FSIZE is {}", size_text(limits.file_size)),
          enough ? "The tables of a process fit."
                 : fmt::format("The sparse tables of a process are {} long: no program can open the device.",
                               size_text(kTableBytes))};
}

Check judge_memory(const Limits& limits) {
  if (!limits.memory)
    return {Mark::ok, "memory", "no control group that can be read limits it", "The machine's memory is the limit."};
  Check check{Mark::ok, "memory",
              fmt::format("{} of the control group's {} are used", size_text(limits.memory->used),
                          size_text(limits.memory->limit)),
              "What processes share counts there once, the page cache too."};
  if (limits.memory->free() < kLittleMemory) {
    check.mark = Mark::note;
    check.consequence += " Beyond the limit the kernel ends a process.";
  }
  return check;
}

Check judge_processors(const Limits& limits) {
  if (limits.processors > 1)
    return {Mark::ok, "processors", fmt::format("{} may be used", limits.processors),
            "Both ends of a transfer can run at once."};
  return {Mark::slower, "processors", "one may be used",
          "The two ends of a transfer take turns, so each message waits for a change of process."};
}

}  // namespace

std::vector<Check> judge(const Limits& limits) {
  return {judge_descriptors(limits), judge_locked_memory(limits), judge_address_space(limits),
          judge_file_size(limits),   judge_memory(limits),        judge_processors(limits)};
}

}  // namespace verbatim::tool
