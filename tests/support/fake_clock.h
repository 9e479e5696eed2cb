// Time under the test's control. Test code only; thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "base/time.h"

namespace verbatim::testing_support {

class FakeClock final : public Clock {
 public:
  Instant now() const override { return {now_.load(std::memory_order_acquire)}; }
  int64_t wall_ns() const override { return now().ns + kWallAhead; }
  static constexpr int64_t kWallAhead = 1'700'000'000'000'000'000;
  void advance(Duration step) { now_.fetch_add(step.ns, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_{1'000'000'000};
};

// Asks the test what time it is, at each look: so that something can happen while the code under test waits, on the
// same thread. `look` gets the number of looks before this one.
class ScriptedClock final : public Clock {
 public:
  explicit ScriptedClock(std::function<Instant(int)> look) : look_(std::move(look)) {}
  Instant now() const override { return look_(looks_++); }
  int64_t wall_ns() const override { return now().ns; }
  int looks() const { return looks_; }

 private:
  const std::function<Instant(int)> look_;
  mutable int looks_ = 0;
};

}  // namespace verbatim::testing_support
