#include "base/no_memory.h"

#include <time.h>

#include <new>

#include "base/no_cancellation.h"

namespace verbatim {
namespace {

constinit thread_local int may_fail = 0;

void on_no_memory() {
  if (may_fail != 0) throw std::bad_alloc();
  const NoCancellation guard;
  const timespec millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  nanosleep(&millisecond, nullptr);
}

}  // namespace

AllocationsMayFail::AllocationsMayFail() { ++may_fail; }
AllocationsMayFail::~AllocationsMayFail() { --may_fail; }

void let_allocations_wait() { std::set_new_handler(on_no_memory); }

}  // namespace verbatim
