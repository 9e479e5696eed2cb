// A memory window (ibv_alloc_mw(3)): a key by which peers reach a part of a region, bound and unbound by requests of
// queue pairs. What it is bound to is in the device's WindowTable.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/device.h"

namespace verbatim::model {

class MemoryWindow {
 public:
  // Grants nothing yet. ENOMEM: the device has no more windows.
  static Result<std::unique_ptr<MemoryWindow>> allocate(Device& device, ProtectionDomain& pd, WindowType type);
  // Unbinds: when it returns nothing can land through the key any more.
  ~MemoryWindow();

  // As it was allocated: binding changes the low 8 bits.
  MemoryKey key() const { return key_; }
  WindowType type() const { return type_; }
  ProtectionDomain& pd() const { return pd_; }

 private:
  MemoryWindow(Device& device, ProtectionDomain& pd, WindowType type, MemoryKey key);

  Device& device_;
  ProtectionDomain& pd_;
  const WindowType type_;
  const MemoryKey key_;
};

}  // namespace verbatim::model
