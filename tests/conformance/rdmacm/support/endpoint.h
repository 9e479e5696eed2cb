// Endpoints of the synchronous calls: rdma_getaddrinfo(3), rdma_create_ep(3).
#pragma once

#include <rdma/rdma_cma.h>

#include "conformance/rdmacm/support/identifier.h"

namespace verbatim::conformance {

// What rdma_getaddrinfo(3) finds. EXPECTs that it finds something.
class AddressInformation {
 public:
  AddressInformation(const char* node, uint16_t port, int flags, rdma_port_space space = RDMA_PS_TCP);
  AddressInformation(const AddressInformation&) = delete;
  ~AddressInformation() {
    if (found_) rdma_freeaddrinfo(found_);
  }
  rdma_addrinfo* get() const { return found_; }

 private:
  rdma_addrinfo* found_ = nullptr;
};

// A server's, which listens, and a client's, whose route is resolved; each with plain queue pairs, eight requests deep.
// EXPECT success.
EndpointHandle listening_endpoint(const char* node, uint16_t port);
EndpointHandle active_endpoint(const char* node, uint16_t port);

}  // namespace verbatim::conformance
