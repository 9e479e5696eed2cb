#include "base/interruption.h"

#include <cstddef>

// Weak: an older C library has neither.
extern "C" {
[[gnu::weak]] extern const ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned int __rseq_size;
}

namespace verbatim {

namespace interruption_internal {

constinit thread_local std::atomic<uint64_t>* watch_word = nullptr;

namespace {

// What a thread writes to whom nobody tells anything.
constinit thread_local std::atomic<uint64_t> unnoticed{0};

char* thread_pointer() {
  char* pointer;
#if defined(__x86_64__)
  asm("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  asm("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return pointer;
}

// The registered area of this thread, or null.
rseq* registered_area() {
  if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0) return nullptr;
  auto* const area = reinterpret_cast<rseq*>(thread_pointer() + __rseq_offset);
  // Not yet registered, or refused.
  return static_cast<int32_t>(area->cpu_id) >= 0 ? area : nullptr;
}

}  // namespace

std::atomic<uint64_t>& find_watch_word() {
  rseq* const area = registered_area();
  static_assert(sizeof area->rseq_cs == sizeof(std::atomic<uint64_t>));
  watch_word = area ? reinterpret_cast<std::atomic<uint64_t>*>(&area->rseq_cs) : &unnoticed;
  return *watch_word;
}

}  // namespace interruption_internal

bool notices_interruption() { return &interruption_watch() != &interruption_internal::unnoticed; }

}  // namespace verbatim
