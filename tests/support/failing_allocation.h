// One allocation of this thread that fails (malloc, calloc, aligned_alloc, and so C++'s new), in the test's program and
// in the libraries it uses. Its source takes the place of the C library's functions: only programs that want it link
// it. Test code only.
#pragma once

#include "base/sanitizer.h"

namespace verbatim::testing_support {

class FailingAllocation {
 public:
  // Not under a sanitizer, which takes that place itself: then none ever fails.
#if defined(VERBATIM_ADDRESS_SANITIZER) || defined(VERBATIM_THREAD_SANITIZER)
  static constexpr bool kPossible = false;
#else
  static constexpr bool kPossible = true;
#endif

  // The one that comes after `others` more, while this lives.
  explicit FailingAllocation(unsigned others);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  bool has_come() const;
};

}  // namespace verbatim::testing_support
