// A registered memory region: checked, published to peers under a key, withdrawn for good before it goes.
#pragma once

#include <memory>
#include <optional>

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
  // With access::kOnDemand, address 0 and this length: whatever memory the process has at the time of an operation.
  static constexpr uint64_t kWholeAddressSpace = UINT64_MAX;

  // EINVAL: nothing to register, a range that wraps, unknown or contradictory rights, access::kFlushPersistent on
  // memory that does not outlive the machine's power. EFAULT: memory that is not there with the access the rights need,
  // unless it is on demand. ENOMEM: the device has no more regions.
  static Result<std::unique_ptr<MemoryRegion>> register_memory(Device& device, ProtectionDomain& pd,
                                                               const Request& request);
  // Of the whole address range: reads as zeros and forgets what is written, through SGEs only. ENOMEM as above.
  static Result<std::unique_ptr<MemoryRegion>> register_null(Device& device, ProtectionDomain& pd);
  // Withdraws: when it returns nothing can be read or written through the key any more. No window is bound to it.
  ~MemoryRegion();

  // What is to be different; the rest stays.
  struct Change {
    ProtectionDomain* pd = nullptr;
    struct Range {
      uint64_t address;
      uint64_t length;
    };
    std::optional<Range> range;  // its iova is the address, or 0 for a zero-based region
    std::optional<uint32_t> access;
  };
  // When it returns nothing can land any more that only the region of before allowed; the key stays. Errors leave the
  // region as it was: those of register_memory; EBUSY while a window is bound to it; EINVAL for a null region. Not for
  // two threads at once.
  Status reregister(const Change& change);

  // The end of it, if it may end now: false, and nothing has changed, while a window is bound to it. Before the
  // destructor.
  bool withdraw();

  MemoryKey key() const { return fields_.key; }
  ProtectionDomain& pd() const { return *pd_; }

 private:
  MemoryRegion(Device& device, ProtectionDomain& pd, std::optional<local::OwnedBacking> backing,
               const local::RegionFields& fields);
  static Result<std::unique_ptr<MemoryRegion>> publish(Device& device, ProtectionDomain& pd,
                                                       std::optional<local::OwnedBacking> backing,
                                                       local::RegionFields fields);

  Device& device_;
  ProtectionDomain* pd_;
  // Keeps the file open that peers map.
  std::optional<local::OwnedBacking> backing_;
  local::RegionFields fields_;  // as published
  bool withdrawn_ = false;
};

}  // namespace verbatim::model
