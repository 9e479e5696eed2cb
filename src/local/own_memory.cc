#include "local/own_memory.h"

#include "local/null_memory.h"

namespace verbatim::local {

std::string how_it_misses(uint64_t start, uint64_t length, uint64_t base, uint64_t size) {
  if (start < base) return fmt::format("starts {} bytes before", base - start);
  if (start - base > size) return fmt::format("starts {} bytes after its end", start - base - size);
  return fmt::format("ends {} bytes later", length - (size - (start - base)));
}

bool contains(uint64_t base, uint64_t size, uint64_t start, uint64_t length) {
  return start >= base && start - base <= size && length <= size - (start - base);
}

uint8_t* locate(const Adapter& adapter, const Sge& sge, PdId pd, bool written, KnownRegion& known, Verdict& verdict) {
  constexpr auto kStatus = CompletionStatus::local_protection_error;
  const RegionFields& region = known.fields;
  if (!adapter.view().refresh(sge.lkey, known) || region.kind == RegionKind::window) {
    decide(verdict, kStatus, Reason::local_key_unknown, "lkey {:#x} is no memory region", sge.lkey.value);
  } else if (region.pd != pd) {
    decide(verdict, kStatus, Reason::local_key_other_pd, "lkey {:#x} belongs to PD {}, the QP to PD {}", sge.lkey.value,
           region.pd.value, pd.value);
  } else if (!contains(region.iova, region.length, sge.address, sge.length)) {
    decide(verdict, kStatus, Reason::local_range, "lkey {:#x} covers {:#x}+{}, the SGE of {} bytes at {:#x} {}",
           sge.lkey.value, region.iova, region.length, sge.length, sge.address,
           how_it_misses(sge.address, sge.length, region.iova, region.length));
  } else if (written && !(region.access & access::kLocalWrite)) {
    decide(verdict, kStatus, Reason::local_no_write_access, "lkey {:#x} has access {:#x}, this operation writes to it",
           sge.lkey.value, region.access);
  } else if (region.kind == RegionKind::null) {
    return written ? null_sink() : null_source();
  } else {
    return reinterpret_cast<uint8_t*>(region.address + (sge.address - region.iova));
  }
  return nullptr;
}

}  // namespace verbatim::local
