#include "model/memory_region.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/no_cancellation.h"
#include "base/undo.h"
#include "local/maps.h"
#include "local/revocation.h"
#include "proto/work.h"

namespace verbatim::model {
namespace {

using Request = MemoryRegion::Request;
using Backing = std::optional<local::OwnedBacking>;

constexpr uint32_t kRemoteWriters = access::kRemoteWrite | access::kRemoteAtomic;
constexpr uint32_t kKnown = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic |
                            access::kWindowBind | access::kZeroBased | access::kOnDemand | access::kHugeTlb |
                            access::kFlushGlobal | access::kFlushPersistent | access::kOptional;

// What stat(2) names hugetlbfs by; <linux/magic.h> has it only in new headers.
constexpr long kHugeTlbMagic = 0x958458f6;

bool is_whole_address_space(const Request& request) {
  return (request.access & access::kOnDemand) && request.address == 0 &&
         request.length == MemoryRegion::kWholeAddressSpace;
}

Status check(const Request& request, const DeviceAttributes& limits) {
  if (request.access & ~kKnown) return {EINVAL};
  // ibv_reg_mr(3): whoever lets peers write must let the device write.
  if ((request.access & kRemoteWriters) && !(request.access & access::kLocalWrite)) return {EINVAL};
  if (is_whole_address_space(request)) return request.iova == 0 ? Status::success() : Status{EINVAL};
  if (request.length == 0 || request.length > limits.max_mr_size) return {EINVAL};
  if (request.address + request.length < request.address || request.iova + request.length < request.iova)
    return {EINVAL};
  return Status::success();
}

// Whether all of the range lies in mappings with that access; true when the kernel does not say.
bool is_mapped(const Request& request, bool writes) {
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
Status populate(const Request& request) {
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

bool outlives_power(const Backing& backing) {
  struct statfs system;
  if (!backing || fstatfs(backing->backing().fd, &system) != 0) return false;
  const auto type = static_cast<unsigned long>(system.f_type) & 0xffffffff;
  return type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != static_cast<unsigned long>(kHugeTlbMagic);
}

// Checks everything there is to check, and finds the file behind the memory.
Result<Backing> prepare(const Request& request, const DeviceAttributes& limits) {
  const NoCancellation guard;
  if (Status status = check(request, limits); !status.ok()) return status;
  Backing backing;
  // What is behind memory on demand may be another thing at each operation, which the kernel looks up then.
  if (!(request.access & access::kOnDemand)) {
    if (Status status = populate(request); !status.ok()) return status;
    Result<Backing> found = local::find_backing(request.address, request.length);
    // Not knowing what is behind the memory only costs the mapped path.
    if (found.ok()) backing = found.take();
  }
  if ((request.access & access::kFlushPersistent) && !outlives_power(backing)) return Status{EINVAL};
  return backing;
}

local::RegionFields fields_of(const ProtectionDomain& pd, const Request& request, const Backing& backing) {
  local::RegionFields fields{.pd = pd.id(),
                             .access = request.access & ~access::kOptional,
                             .iova = request.iova,
                             .length = request.length,
                             .address = request.address};
  if (backing) {
    const local::FileBacking& where = backing->backing();
    fields.backing_fd = where.fd;
    fields.backing_device = where.device;
    fields.backing_inode = where.inode;
    fields.backing_offset = where.offset;
  }
  return fields;
}

void trace(std::string_view what, const local::RegionFields& fields) {
  log(LogLevel::trace, "MR {:#x} {}: {:#x}+{} access {:#x}, PD {}, {}", fields.key.value, what, fields.address,
      fields.length, fields.access, fields.pd.value,
      fields.backing_fd >= 0 ? "a file that peers can map" : "private memory");
}

}  // namespace

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::register_memory(Device& device, ProtectionDomain& pd,
                                                                    const Request& request) {
  Result<Backing> backing = prepare(request, device.attributes());
  if (!backing.ok()) return backing.status();
  const local::RegionFields fields = fields_of(pd, request, backing.value());
  return publish(device, pd, backing.take(), fields);
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::register_null(Device& device, ProtectionDomain& pd) {
  return publish(
      device, pd, std::nullopt,
      {.pd = pd.id(), .access = access::kLocalWrite, .length = kWholeAddressSpace, .kind = local::RegionKind::null});
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::publish(Device& device, ProtectionDomain& pd, Backing backing,
                                                            local::RegionFields fields) {
  if (!device.mrs.take(device.attributes().max_mr)) return Status{ENOMEM};
  Undo taken([&] { device.mrs.give_back(); });
  const Result<MemoryKey> key = device.adapter().publish_region(fields);
  if (!key.ok()) return key.status();
  Undo published([&] { device.adapter().withdraw_region(key.value()); });
  fields.key = key.value();
  std::unique_ptr<MemoryRegion> region(new MemoryRegion(device, pd, std::move(backing), fields));
  taken.keep();
  published.keep();
  trace("registered", fields);
  return region;
}

MemoryRegion::MemoryRegion(Device& device, ProtectionDomain& pd, Backing backing, const local::RegionFields& fields)
    : device_(device), pd_(&pd), backing_(std::move(backing)), fields_(fields) {
  pd_->add_user();
}

Status MemoryRegion::reregister(const Change& change) {
  if (fields_.kind != local::RegionKind::region) return {EINVAL};
  Request request{fields_.address, fields_.length, fields_.iova, fields_.access};
  if (change.access) request.access = *change.access;
  if (change.range) {
    request.address = change.range->address;
    request.length = change.range->length;
    request.iova = request.access & access::kZeroBased ? 0 : request.address;
  }
  ProtectionDomain& pd = change.pd ? *change.pd : *pd_;
  Result<Backing> backing = prepare(request, device_.attributes());
  if (!backing.ok()) return backing.status();
  local::RegionFields fields = fields_of(pd, request, backing.value());
  fields.key = fields_.key;
  if (!device_.windows().change_region(fields)) return {EBUSY};
  local::settle_region(device_.adapter(), device_.peers(), device_.clock(), fields.key);
  fields_ = fields;
  // Peers that still follow the old fields to the old file are done: it may be closed.
  backing_ = backing.take();
  pd.add_user();
  pd_->remove_user();
  pd_ = &pd;
  trace("registered anew", fields_);
  return Status::success();
}

bool MemoryRegion::withdraw() {
  withdrawn_ = device_.windows().withdraw_region(fields_.key);
  return withdrawn_;
}

MemoryRegion::~MemoryRegion() {
  if (!withdrawn_) device_.adapter().withdraw_region(fields_.key);
  local::settle_region(device_.adapter(), device_.peers(), device_.clock(), fields_.key);
  device_.mrs.give_back();
  pd_->remove_user();
}

}  // namespace verbatim::model
