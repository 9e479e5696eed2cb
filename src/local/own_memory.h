// The local side of an operation: what an SGE of this process may name, by its own table of regions. Thread-safe; who
// uses an address that it gives holds a touch record meanwhile (touch_record.h).
#pragma once

#include <span>

#include "local/adapter.h"
#include "local/verdict.h"

namespace verbatim::local {

inline constexpr int kMaxSges = 32;

// Where the SGE's first byte is in this process, or null and LOC_PROT_ERR: an unknown key, another domain than `pd`,
// a range outside, or no right to write where `written`. Of a null region the answer is the same for every byte
// (null_memory.h). `known` is kept by who locates again and again (SegmentView::refresh).
uint8_t* locate(const Adapter& adapter, const Sge& sge, PdId pd, bool written, KnownRegion& known, Verdict& verdict);

// How [start, start + length) fails to lie in `size` bytes at `base`; in words for a person. And whether it does.
std::string how_it_misses(uint64_t start, uint64_t length, uint64_t base, uint64_t size);
bool contains(uint64_t base, uint64_t size, uint64_t start, uint64_t length);

}  // namespace verbatim::local
