// Points in time and lengths of it, in nanoseconds. Nothing here reads a clock: time is an argument.
#pragma once

#include <compare>
#include <cstdint>

namespace verbatim {

struct Duration {
  int64_t ns = 0;
  static constexpr Duration nanoseconds(int64_t n) { return {n}; }
  static constexpr Duration microseconds(int64_t n) { return {n * 1000}; }
  static constexpr Duration milliseconds(int64_t n) { return {n * 1'000'000}; }
  auto operator<=>(const Duration&) const = default;
  constexpr Duration operator*(int64_t factor) const { return {ns * factor}; }
  constexpr Duration operator+(Duration other) const { return {ns + other.ns}; }
};

// Nanoseconds since an origin that is the same for the whole process (CLOCK_MONOTONIC outside tests).
struct Instant {
  int64_t ns = 0;
  auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Duration operator-(Instant other) const { return {ns - other.ns}; }
};

inline constexpr Instant kNever{INT64_MAX};

// Where `now` comes from for code that needs it only on a slow path. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  // The time of day at the instant that now() calls now: nanoseconds since 1970, UTC.
  virtual int64_t wall_ns() const = 0;
};

}  // namespace verbatim
