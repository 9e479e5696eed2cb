// Memory windows of a Side, bound by requests of its queue pairs.
#pragma once

#include "conformance/support/side.h"

namespace verbatim::conformance {

// Binds a window by the call of its type and waits for the completion; `window` has its new rkey then. EXPECTs success,
// and that the CQ has no other completions.
void bind_window(const Side& side, ibv_qp* qp, ibv_mw* window, const ibv_mw_bind_info& range);

// The same of a queue pair that is connected to itself and gone afterwards; type 1 only.
void bind_window_anew(const Side& side, ibv_mw* window, const ibv_mw_bind_info& range);

// Takes the rights of a type 2 window away by a request of its queue pair.
void invalidate_window(const Side& side, ibv_qp* qp, const ibv_mw* window);

}  // namespace verbatim::conformance
