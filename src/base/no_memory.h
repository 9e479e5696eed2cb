// What an allocation that finds no memory means. A call that can say ENOMEM has it thrown. Everywhere else, in the
// middle of posting and polling or in the engine, whose work nobody could be told the failure of, it is a wait until
// there is memory: nothing that was begun is lost.
#pragma once

namespace verbatim {

// While one lives, allocations of its thread throw std::bad_alloc.
class AllocationsMayFail {
 public:
  AllocationsMayFail();
  ~AllocationsMayFail();
  AllocationsMayFail(const AllocationsMayFail&) = delete;
  AllocationsMayFail& operator=(const AllocationsMayFail&) = delete;
};

// Makes all others wait from now on. It is the handler of our own copy of the C++ runtime (std::set_new_handler): a
// program that uses C++ has another.
void let_allocations_wait();

}  // namespace verbatim
