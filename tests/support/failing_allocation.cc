#include "support/failing_allocation.h"

#include <cerrno>
#include <cstddef>
#include <optional>

// The C library's own, under the names that it keeps for this purpose.
extern "C" {
void* __libc_malloc(size_t size);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t size);        // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

constinit thread_local std::optional<unsigned> others_before;
constinit thread_local bool come = false;

[[maybe_unused]] bool fails() {
  if (!others_before) return false;
  if ((*others_before)-- > 0) return false;
  others_before.reset();
  come = true;
  errno = ENOMEM;
  return true;
}

}  // namespace

#if !defined(VERBATIM_ADDRESS_SANITIZER) && !defined(VERBATIM_THREAD_SANITIZER)

extern "C" {

void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }

}  // extern "C"

#endif

namespace verbatim::testing_support {

FailingAllocation::FailingAllocation(unsigned others) {
  come = false;
  others_before = others;
}
FailingAllocation::~FailingAllocation() { others_before.reset(); }
bool FailingAllocation::has_come() const { return come; }

}  // namespace verbatim::testing_support
