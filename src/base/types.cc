#include "base/types.h"

#include <arpa/inet.h>

namespace verbatim {

std::string Gid::text() const {
  char buffer[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, bytes.data(), buffer, sizeof buffer);
}

}  // namespace verbatim
