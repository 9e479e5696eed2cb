// A process's address space, to learn when the last thread has left it: by the process's end or by exec. That is later
// than the first sign of a death, since the threads of a dying process end one by one.
#pragma once

#include <sys/types.h>

#include "base/file_descriptor.h"

namespace verbatim::local {

class ProcessImage {
 public:
  // Of no process: has always ended.
  ProcessImage() = default;
  // The one that `pid` has now. Where /proc does not show it to us (ptrace_may_access()), ended() is true at once.
  explicit ProcessImage(pid_t pid);

  // Any thread; a system call.
  bool ended() const;

 private:
  FileDescriptor maps_;
};

}  // namespace verbatim::local
