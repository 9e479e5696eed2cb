// A name that one process alone holds: a socket bound, and never connected, to it. The kernel keeps it unique with or
// without an agent, and a dead process's name is free at once. Close-on-exec, so exec gives the name back. A forked
// child holds it too, until it drops its copy. Any thread.
#pragma once

#include "agent/identity.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim {

// EADDRINUSE: taken. Otherwise why there is no socket.
Result<FileDescriptor> claim_name(const AbstractName& name);

}  // namespace verbatim
