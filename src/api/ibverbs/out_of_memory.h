// Memory that is not there is an errno to programs, which are C and know no exception.
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>

#include "base/no_memory.h"

namespace verbatim::api {

template <auto call>
struct WithoutMemory;
template <class Returned, class... Arguments, Returned (*call)(Arguments...)>
struct WithoutMemory<call> {
  static Returned run(Arguments... arguments) {
    const AllocationsMayFail guard;
    try {
      return call(arguments...);
    } catch (const std::bad_alloc&) {
      if constexpr (std::is_pointer_v<Returned>) {
        errno = ENOMEM;
        return nullptr;
      } else {
        return ENOMEM;
      }
    }
  }
};

// `call` with ENOMEM in the place of std::bad_alloc: returned, or NULL with errno.
template <auto call>
inline constexpr auto* or_no_memory = &WithoutMemory<call>::run;

}  // namespace verbatim::api
