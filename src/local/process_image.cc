#include "local/process_image.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/no_cancellation.h"
#include "local/process_memory.h"

namespace verbatim::local {

// An open maps file holds the address space itself and not the process: it reads as empty once nobody uses it. That of
// a thread that has ended, as the first one may have, is empty too.
ProcessImage::ProcessImage(pid_t pid) {
  for (const pid_t thread : threads_of(pid)) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/maps", pid, thread);
    maps_ = FileDescriptor(open(path, O_RDONLY | O_CLOEXEC));
    if (!ended()) return;
  }
}

bool ProcessImage::ended() const {
  const NoCancellation guard;
  char byte;
  return !maps_.valid() || pread(maps_.get(), &byte, 1, 0) <= 0;
}

}  // namespace verbatim::local
