#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "limits.h"
#include "text_file.h"

namespace verbatim::tool {
namespace {

static_assert(RLIM_INFINITY == kUnlimited);

rlimit read_limit(__rlimit_resource resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(resource, &limit);
  return limit;
}

int usable_processors() {
  cpu_set_t set;
  // Fails on machines with more processors than the set has room for.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&set);
}

}  // namespace

Limits probe_limits() {
  const rlimit descriptors = read_limit(RLIMIT_NOFILE);
  return {
      .descriptors = descriptors.rlim_cur,
      .descriptors_hard = descriptors.rlim_max,
      .locked_memory = read_limit(RLIMIT_MEMLOCK).rlim_cur,
      .address_space = read_limit(RLIMIT_AS).rlim_cur,
      .file_size = read_limit(RLIMIT_FSIZE).rlim_cur,
      .memory = memory_budget(read_text("/proc/self/cgroup").value_or(""), "/sys/fs/cgroup"),
      .processors = usable_processors(),
  };
}

}  // namespace verbatim::tool
