// The only place that reads a clock.
#pragma once

#include <time.h>

#include "base/time.h"

namespace verbatim::engine {

class SteadyClock final : public Clock {
 public:
  Instant now() const override { return {read(CLOCK_MONOTONIC)}; }
  int64_t wall_ns() const override { return read(CLOCK_REALTIME); }

 private:
  static int64_t read(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
};

}  // namespace verbatim::engine
