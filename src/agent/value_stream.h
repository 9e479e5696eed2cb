// Values to bytes and back, for processes that were built alike: numbers as they lie in memory, one after the other
// without gaps. A struct is what fields(stream, value) lists, which both directions run (cm_fields.h). Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>

namespace verbatim::agent {

class ValueWriter {
 public:
  // `room` must be enough for what is written.
  explicit ValueWriter(std::span<std::byte> room) : room_(room) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  template <class Enum>
  void enumeration(const Enum& value, [[maybe_unused]] Enum last) {
    assert(value <= last);
    raw(value);
  }
  template <class Enum>
  void one_of(const Enum& value, [[maybe_unused]] std::initializer_list<Enum> allowed) {
    assert(std::ranges::find(allowed, value) != allowed.end());
    raw(value);
  }
  void require([[maybe_unused]] bool condition) { assert(condition); }
  void bytes(std::span<const uint8_t> values) { std::memcpy(take(values.size()), values.data(), values.size()); }
  size_t size() const { return size_; }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      raw(static_cast<uint8_t>(value));
    else if constexpr (std::is_integral_v<T>)
      raw(value);
    else
      fields(*this, value);
  }
  template <size_t N>
  void put(const std::array<uint8_t, N>& value) {
    bytes(value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void raw(const T& value) {
    std::memcpy(take(sizeof value), &value, sizeof value);
  }
  std::byte* take(size_t count) {
    assert(count <= room_.size() - size_);
    size_ += count;
    return room_.data() + size_ - count;
  }

  std::span<std::byte> room_;
  size_t size_ = 0;
};

// Of bytes that anybody may have written. After the first thing that is wrong, nothing more is read.
class ValueReader {
 public:
  explicit ValueReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  template <class Enum>
  void enumeration(Enum& value, Enum last) {
    raw(value);
    require(value <= last);
  }
  template <class Enum>
  void one_of(Enum& value, std::initializer_list<Enum> allowed) {
    raw(value);
    require(std::ranges::find(allowed, value) != allowed.end());
  }
  void require(bool condition) {
    if (!condition) ok_ = false;
  }
  // Empty if there are not so many.
  std::span<const uint8_t> bytes(size_t count) {
    const std::byte* const start = take(count);
    return {reinterpret_cast<const uint8_t*>(start), start ? count : 0};
  }
  // All of the bytes were a value.
  bool is_complete() const { return ok_ && rest_.empty(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      boolean(value);
    else if constexpr (std::is_integral_v<T>)
      raw(value);
    else
      fields(*this, value);
  }
  template <size_t N>
  void get(std::array<uint8_t, N>& value) {
    raw(value);
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool is_there = false;
    boolean(is_there);
    if (is_there) get(value.emplace());
  }
  void boolean(bool& value) {
    uint8_t byte = 0;
    raw(byte);
    require(byte <= 1);
    value = byte == 1;
  }
  template <class T>
  void raw(T& value) {
    if (const std::byte* const start = take(sizeof value)) std::memcpy(&value, start, sizeof value);
  }
  // Null if there are not so many.
  const std::byte* take(size_t count) {
    require(count <= rest_.size());
    if (!ok_) return nullptr;
    const std::byte* const start = rest_.data();
    rest_ = rest_.subspan(count);
    return start;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace verbatim::agent
