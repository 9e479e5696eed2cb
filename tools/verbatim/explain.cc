#include "explain.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/reason.h"

namespace verbatim::tool {
namespace {

std::optional<uint32_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const ReasonText* find_by_number(uint32_t number) {
  const ReasonText& row = describe(Reason{number});
  return row.reason == Reason{number} ? &row : nullptr;
}

const ReasonText* find_by_name(std::string_view name) {
  // Reasons are numbered in 16 bits.
  for (uint32_t number = 0; number <= 0xffff; ++number)
    if (const ReasonText* row = find_by_number(number); row && row->name == name) return row;
  return nullptr;
}

}  // namespace

int explain_reason(const std::string& number_or_name) {
  const std::optional<uint32_t> number = parse_number(number_or_name);
  const ReasonText* row = number ? find_by_number(*number) : find_by_name(number_or_name);
  if (!row) {
    fmt::print(stderr, "verbatim: no reason {}; verbatim(7) lists them\n", number_or_name);
    return 1;
  }
  fmt::print("0x{:x} {}: {}\n", static_cast<uint32_t>(row->reason), row->name, row->meaning);
  return 0;
}

}  // namespace verbatim::tool
