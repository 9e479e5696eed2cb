// rdma_get_devices(3), rdma_free_devices(3).
#include <cstdlib>

#include "api/rdmacm/connection_manager.h"
#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

VERBATIM_EXPORT ibv_context** rdma_get_devices(int* count) {
  ibv_context** devices = nullptr;
  answer([&]() -> Status {
    const Result<ConnectionManager*> manager = ConnectionManager::get();
    if (!manager.ok()) return manager.status();
    devices = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
    if (!devices) return {ENOMEM};
    devices[0] = manager.value()->context();
    return Status::success();
  });
  if (count) *count = devices ? 1 : 0;
  return devices;
}

VERBATIM_EXPORT void rdma_free_devices(ibv_context** devices) { std::free(devices); }
