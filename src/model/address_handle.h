// An address handle: where datagrams go, checked once. It does not change, so a request copies what it says when it is
// posted, and the handle may go before the request does. Thread-safe.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/address_vector.h"
#include "model/device.h"
#include "model/protection_domain.h"
#include "proto/work.h"

namespace verbatim::model {

class AddressHandle {
 public:
  // EINVAL: no GRH, which an Ethernet link cannot do without; another port; a source index with no GID; addresses of
  // two families. EHOSTUNREACH: the destination is no group and no address of this host, or a
  // group, and there is no agent to tell who is in it. ENOMEM: no more of them.
  // The device and the domain outlive it.
  static Result<std::unique_ptr<AddressHandle>> create(Device& device, ProtectionDomain& pd,
                                                       const AddressVector& address);
  ~AddressHandle();

  const DatagramAddress& address() const { return address_; }

 private:
  AddressHandle(Device& device, ProtectionDomain& pd, const DatagramAddress& address);

  Device& device_;
  ProtectionDomain& pd_;
  const DatagramAddress address_;
};

}  // namespace verbatim::model
