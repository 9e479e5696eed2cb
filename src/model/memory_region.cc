#include "model/memory_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "local/maps.h"
#include "local/revocation.h"
#include "proto/work.h"

namespace verbatim::model {
namespace {

constexpr uint32_t kRemoteWriters = access::kRemoteWrite | access::kRemoteAtomic;
constexpr uint32_t kKnown = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic |
                            access::kWindowBind | access::kZeroBased | access::kOnDemand | access::kHugeTlb |
                            access::kOptional;

Status check(const MemoryRegion::Request& request, const DeviceAttributes& limits) {
  if (request.length == 0 || request.length > limits.max_mr_size) return {EINVAL};
  if (request.address + request.length < request.address || request.iova + request.length < request.iova)
    return {EINVAL};
  if (request.access & ~kKnown) return {EINVAL};
  // ibv_reg_mr(3): whoever lets peers write must let the device write.
  if ((request.access & kRemoteWriters) && !(request.access & access::kLocalWrite)) return {EINVAL};
  if (request.access & access::kOnDemand) return {EOPNOTSUPP};
  return Status::success();
}

// Whether all of the range lies in mappings with that access; true when the kernel does not say.
bool is_mapped(const MemoryRegion::Request& request, bool writes) {
  const Result<std::vector<local::Mapping>> mappings = local::find_mappings(request.address, request.length);
  if (!mappings.ok()) return true;
  uint64_t reached = request.address;
  for (const local::Mapping& mapping : mappings.value()) {
    if (mapping.start > reached || !(writes ? mapping.writable : mapping.readable)) return false;
    reached = mapping.end;
  }
  return reached >= request.address + request.length;
}

// Faults the range in with the access that the device will need, which is what pinning it would check.
Status populate(const MemoryRegion::Request& request) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = request.address & ~(page - 1);
  const uint64_t end = (request.address + request.length + page - 1) & ~(page - 1);
  const bool writes = request.access & access::kLocalWrite;
  if (madvise(reinterpret_cast<void*>(start), end - start, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return Status::success();
  // EINVAL: a kernel before 5.14, a mapping that cannot be populated (device memory), or one without the access.
  if (errno == EINVAL && is_mapped(request, writes)) return Status::success();
  return {EFAULT};
}

}  // namespace

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::register_memory(Device& device, ProtectionDomain& pd,
                                                                    const Request& request) {
  if (Status status = check(request, device.attributes()); !status.ok()) return status;
  if (Status status = populate(request); !status.ok()) return status;
  Result<std::optional<local::OwnedBacking>> backing = local::find_backing(request.address, request.length);
  // Not knowing what is behind the memory only costs the mapped path.
  std::optional<local::OwnedBacking> file = backing.ok() ? backing.take() : std::nullopt;
  if (!device.mrs.take(device.attributes().max_mr)) return Status{ENOMEM};
  local::RegionFields fields{.pd = pd.id(),
                             .access = request.access & ~access::kOptional,
                             .iova = request.iova,
                             .length = request.length,
                             .address = request.address};
  if (file) {
    const local::FileBacking& where = file->backing();
    fields.backing_fd = where.fd;
    fields.backing_device = where.device;
    fields.backing_inode = where.inode;
    fields.backing_offset = where.offset;
  }
  Result<MemoryKey> key = device.adapter().publish_region(fields);
  if (!key.ok()) {
    device.mrs.give_back();
    return key.status();
  }
  log(LogLevel::trace, "MR {:#x}: {:#x}+{} access {:#x}, PD {}, {}", key.value().value, request.address, request.length,
      request.access, pd.id().value, file ? "a file that peers can map" : "private memory");
  return std::unique_ptr<MemoryRegion>(new MemoryRegion(device, pd, std::move(file), key.value()));
}

MemoryRegion::MemoryRegion(Device& device, ProtectionDomain& pd, std::optional<local::OwnedBacking> backing,
                           MemoryKey key)
    : device_(device), pd_(pd), backing_(std::move(backing)), key_(key) {
  pd_.add_user();
}

MemoryRegion::~MemoryRegion() {
  device_.adapter().withdraw_region(key_);
  local::settle_region(device_.adapter(), device_.peers(), device_.clock(), key_);
  device_.mrs.give_back();
  pd_.remove_user();
}

}  // namespace verbatim::model
