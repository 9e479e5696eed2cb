#include "local/null_memory.h"

#include "local/local_endpoint.h"

namespace verbatim::local {
namespace {

// Never written, so it costs no memory but the kernel's one page of zeros.
alignas(4096) uint8_t zeros[kSliceBytes];
alignas(4096) uint8_t sink[kSliceBytes];

}  // namespace

uint8_t* null_source() { return zeros; }
uint8_t* null_sink() { return sink; }

}  // namespace verbatim::local
