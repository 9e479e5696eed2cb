#include "model/memory_advice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace verbatim::model {
namespace {

struct Range {
  uint64_t address;
  uint64_t length;
};

Result<Range> find(const Device& device, const ProtectionDomain& pd, MemoryAdvice advice, const Sge& range) {
  local::RegionFields region;
  if (!device.adapter().view().read(range.lkey, region)) return Status{ENOENT};
  if (region.kind != local::RegionKind::region || !(region.access & access::kOnDemand)) return Status{EINVAL};
  if (region.pd != pd.id()) return Status{EPERM};
  if (advice == MemoryAdvice::prefetch_write && !(region.access & access::kLocalWrite)) return Status{EPERM};
  const uint64_t offset = range.address - region.iova;
  if (range.address < region.iova || offset > region.length || range.length > region.length - offset)
    return Status{EFAULT};
  return Range{region.address + offset, range.length};
}

Status prefetch(const Range& range, MemoryAdvice advice) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = range.address & ~(page - 1);
  const uint64_t end = (range.address + range.length + page - 1) & ~(page - 1);
  const int how = advice == MemoryAdvice::prefetch_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (range.length == 0 || madvise(reinterpret_cast<void*>(start), end - start, how) == 0) return Status::success();
  // EINVAL: a kernel before 5.14 cannot; then the first operation does.
  return errno == EINVAL ? Status::success() : Status{EFAULT};
}

}  // namespace

Status advise(const Device& device, const ProtectionDomain& pd, MemoryAdvice advice, std::span<const Sge> ranges) {
  if (ranges.empty()) return {EINVAL};
  std::vector<Range> found;
  for (const Sge& range : ranges) {
    const Result<Range> where = find(device, pd, advice, range);
    if (!where.ok()) return where.status();
    found.push_back(where.value());
  }
  // What is present is so for the device too.
  if (advice == MemoryAdvice::prefetch_present) return Status::success();
  for (const Range& range : found)
    if (Status status = prefetch(range, advice); !status.ok()) return status;
  return Status::success();
}

}  // namespace verbatim::model
