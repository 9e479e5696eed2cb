// The limits under which a program would run, and how far they carry.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "check.h"
#include "memory_cgroup.h"

namespace verbatim::tool {

// As getrlimit(2) says it.
inline constexpr uint64_t kUnlimited = UINT64_MAX;

// Descriptors of a process that has opened the device and has a queue pair, a completion channel and its standard
// streams. Each peer takes one more; each process takes four of the agent, which raises its own limit to the hard one.
inline constexpr uint64_t kOwnDescriptors = 16;
inline constexpr uint64_t kAgentDescriptorsPerProcess = 4;
// What a process maps of its own tables, and again for each peer; sparse. At least the size of local::Segment.
inline constexpr uint64_t kTableBytes = uint64_t{320} << 20;

struct Limits {
  uint64_t descriptors = kUnlimited;       // RLIMIT_NOFILE, soft
  uint64_t descriptors_hard = kUnlimited;  // hard
  uint64_t locked_memory = kUnlimited;     // RLIMIT_MEMLOCK, bytes
  uint64_t address_space = kUnlimited;     // RLIMIT_AS, bytes
  uint64_t file_size = kUnlimited;         // RLIMIT_FSIZE, bytes
  std::optional<MemoryBudget> memory;
  int processors = 1;  // that this process may run on
};

Limits probe_limits();

std::vector<Check> judge(const Limits& limits);

}  // namespace verbatim::tool
