// Hears from the kernel when links or addresses of this network namespace come and go (rtnetlink(7)). Only that
// something did: who wants to know what reads the tables (host_interfaces.h). One thread at a time.
#pragma once

#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::host {

class AddressWatch {
 public:
  // Of what happens from now on. Fails with the errno of socket or bind.
  static Result<AddressWatch> open();

  // Readable when something has happened since drain(). Borrowed.
  int fd() const { return socket_.get(); }
  void drain() const;

 private:
  explicit AddressWatch(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
};

}  // namespace verbatim::host
