// A registered memory region: checked, published to peers under a key, withdrawn for good before it goes.
#pragma once

#include <memory>

#include "base/result.h"
#include "local/backing.h"
#include "model/device.h"

namespace verbatim::model {

class MemoryRegion {
 public:
  struct Request {
    uint64_t address = 0;  // in this process
    uint64_t length = 0;   // bytes
    uint64_t iova = 0;     // what peers and SGEs call the first byte
    uint32_t access = 0;   // proto/work.h access::
  };

  // EINVAL: nothing to register, a range that wraps, unknown or contradictory rights. EFAULT: memory that is not there
  // with the access the rights need. EOPNOTSUPP: on-demand paging. ENOMEM: the device has no more regions.
  static Result<std::unique_ptr<MemoryRegion>> register_memory(Device& device, ProtectionDomain& pd,
                                                               const Request& request);
  // Withdraws: when it returns nothing can be read or written through the key any more.
  ~MemoryRegion();

  MemoryKey key() const { return key_; }
  ProtectionDomain& pd() const { return pd_; }

 private:
  MemoryRegion(Device& device, ProtectionDomain& pd, std::optional<local::OwnedBacking> backing, MemoryKey key);

  Device& device_;
  ProtectionDomain& pd_;
  // Keeps the file open that peers map.
  const std::optional<local::OwnedBacking> backing_;
  const MemoryKey key_;
};

}  // namespace verbatim::model
