// The addresses of this host, for the connection manager. One thread at a time.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "cm/address.h"
#include "host/address_watch.h"

namespace verbatim::agent {

class HostNetwork {
 public:
  virtual ~HostNetwork() = default;
  // As they are now, those first that lead furthest. EMFILE and others: the kernel cannot be asked.
  virtual Result<std::vector<cm::HostAddress>> addresses() = 0;
  // Readable when they have changed since addresses(); -1: it is not heard. Borrowed.
  virtual int fd() const = 0;
};

// What the kernel says (host/host_interfaces.h).
class KernelNetwork final : public HostNetwork {
 public:
  KernelNetwork();

  Result<std::vector<cm::HostAddress>> addresses() override;
  int fd() const override { return watch_ ? watch_->fd() : -1; }

 private:
  std::optional<host::AddressWatch> watch_;
};

}  // namespace verbatim::agent
