// The services of the kernel that processes use to find, wake and trust each other.
#pragma once

#include <vector>

#include "check.h"

namespace verbatim::tool {

// An errno for each; 0: it works.
struct Services {
  int memfd_error = 0;
  int seal_error = 0;
  int eventfd_error = 0;
  int pidfd_error = 0;
  int abstract_socket_error = 0;
  int descriptor_passing_error = 0;
  int robust_futex_error = 0;
  int membarrier_error = 0;            // of registering, or of the call
  int restartable_sequence_error = 0;  // ENOSYS where neither C library nor kernel offers them
};

// By trying each, in a child.
Services probe_services();

std::vector<Check> judge(const Services& services);

}  // namespace verbatim::tool
