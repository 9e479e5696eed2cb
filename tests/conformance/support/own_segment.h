// What this process shows its peers, to be written over by a test.
#pragma once

#include <stop_token>

namespace verbatim::conformance {

// Writes nonsense over its pages until told to stop. Not over the touch records: who holds one up is waited for.
void scribble_over_own_segment(const std::stop_token& stop);

}  // namespace verbatim::conformance
