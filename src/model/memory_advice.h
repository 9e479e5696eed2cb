// ibv_advise_mr(3): prefetching what lies behind regions that are on demand. A copy faults in what it needs, so advice
// only moves the cost to another moment.
#pragma once

#include <span>

#include "base/result.h"
#include "model/device.h"
#include "proto/work.h"

namespace verbatim::model {

// ibv_advise_mr_advice.
enum class MemoryAdvice : uint8_t { prefetch = 0, prefetch_write = 1, prefetch_present = 2 };

// Takes it for all of `ranges`, or fails before anything is done. EINVAL: no range, a key that is none of a region on
// demand. ENOENT: a key that names nothing. EPERM: another PD; prefetch_write for a region that is not writable.
// EFAULT: beyond the region, or no memory there.
Status advise(const Device& device, const ProtectionDomain& pd, MemoryAdvice advice, std::span<const Sge> ranges);

}  // namespace verbatim::model
