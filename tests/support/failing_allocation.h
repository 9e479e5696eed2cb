// One allocation of this thread that fails, in the test's program and in the libraries it uses. Its source takes the
// place of the C library's functions, so that it is linked only to programs that want it, and not under a sanitizer,
// which does the same. Test code only.
#pragma once

namespace verbatim::testing_support {

class FailingAllocation {
 public:
  // The one that comes after `others` more, while this lives.
  explicit FailingAllocation(unsigned others);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  bool has_come() const;
};

}  // namespace verbatim::testing_support
