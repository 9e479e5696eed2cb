// The only place that reads a clock.
#pragma once

#include <time.h>

#include "base/time.h"

namespace verbatim::engine {

class SteadyClock final : public Clock {
 public:
  Instant now() const override {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return {int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
  }
};

}  // namespace verbatim::engine
