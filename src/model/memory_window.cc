#include "model/memory_window.h"

#include <cerrno>

namespace verbatim::model {

Result<std::unique_ptr<MemoryWindow>> MemoryWindow::allocate(Device& device, ProtectionDomain& pd, WindowType type) {
  if (!device.mws.take(device.attributes().max_mw)) return Status{ENOMEM};
  const Result<MemoryKey> key = device.windows().allocate(pd.id(), type);
  if (!key.ok()) {
    device.mws.give_back();
    return key.status();
  }
  return std::unique_ptr<MemoryWindow>(new MemoryWindow(device, pd, type, key.value()));
}

MemoryWindow::MemoryWindow(Device& device, ProtectionDomain& pd, WindowType type, MemoryKey key)
    : device_(device), pd_(pd), type_(type), key_(key) {
  pd_.add_user();
}

MemoryWindow::~MemoryWindow() {
  device_.windows().release(key_);
  device_.mws.give_back();
  pd_.remove_user();
}

}  // namespace verbatim::model
