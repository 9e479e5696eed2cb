// What lies behind an SGE of a null region (RegionKind::null), whatever its address: zeros to be read from, and a place
// for what nobody wants. Good for kSliceBytes; shared by all, since nothing that is written there is ever read.
#pragma once

#include <cstdint>

namespace verbatim::local {

uint8_t* null_source();
uint8_t* null_sink();
inline bool is_null_memory(const uint8_t* start) { return start == null_source() || start == null_sink(); }

}  // namespace verbatim::local
