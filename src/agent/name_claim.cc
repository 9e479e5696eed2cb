#include "agent/name_claim.h"

#include <sys/socket.h>

#include <cerrno>

namespace verbatim {

Result<FileDescriptor> claim_name(const AbstractName& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status{errno};
  if (::bind(socket.get(), name.get(), name.length) != 0) return Status{errno};
  return socket;
}

}  // namespace verbatim
