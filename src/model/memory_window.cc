#include "model/memory_window.h"

#include <cerrno>

#include "base/undo.h"

namespace verbatim::model {

Result<std::unique_ptr<MemoryWindow>> MemoryWindow::allocate(Device& device, ProtectionDomain& pd, WindowType type) {
  if (!device.mws.take(device.attributes().max_mw)) return Status{ENOMEM};
  Undo taken([&] { device.mws.give_back(); });
  const Result<MemoryKey> key = device.windows().allocate(pd.id(), type);
  if (!key.ok()) return key.status();
  Undo allocated([&] { device.windows().release(key.value()); });
  std::unique_ptr<MemoryWindow> window(new MemoryWindow(device, pd, type, key.value()));
  taken.keep();
  allocated.keep();
  return window;
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
