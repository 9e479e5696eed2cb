// A value, or the errno that a caller of the C API will see. No exceptions cross a layer.
#pragma once

#include <cassert>
#include <optional>
#include <utility>

namespace verbatim {

// A positive errno value; 0 is success.
struct [[nodiscard]] Status {
  int error = 0;
  constexpr bool ok() const { return error == 0; }
  static constexpr Status success() { return {}; }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status failure) : error_(failure.error) { assert(error_ != 0); }

  bool ok() const { return error_ == 0; }
  int error() const { return error_; }
  Status status() const { return {error_}; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  int error_ = 0;
};

}  // namespace verbatim
