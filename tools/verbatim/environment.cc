#include "environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

namespace verbatim::tool {
namespace {

constexpr std::string_view kPrefix = "VERBATIM_";

// The level, then optionally where the lines go.
bool valid_log(std::string_view value) {
  const size_t colon = value.find(':');
  const std::string_view level = value.substr(0, colon);
  const bool file_given = colon == std::string_view::npos || colon + 1 < value.size();
  return file_given && (level == "off" || level == "warn" || level == "info" || level == "trace");
}

// Decimal, or hexadecimal with 0x.
std::optional<uint32_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// An OUI, which is 24 bits; programs take 0 for a device that could not be asked.
bool valid_vendor_id(std::string_view value) {
  const std::optional<uint32_t> number = parse_number(value);
  return number && *number != 0 && *number <= 0xffffff;
}

bool valid_part_id(std::string_view value) { return parse_number(value).has_value(); }

bool valid_tag(std::string_view value) {
  return value.size() <= 32 && std::all_of(value.begin(), value.end(),
                                           [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

bool valid_switch(std::string_view value) { return value == "0" || value == "1"; }

}  // namespace

const std::vector<Variable>& known_variables() {
  static const std::vector<Variable> table = {
      {"VERBATIM_LOG", "off, warn, info or trace, then optionally a colon and a file", valid_log, true},
      {"VERBATIM_VENDOR_ID", "a number from 1 to 0xffffff", valid_vendor_id, true},
      {"VERBATIM_VENDOR_PART_ID", "a number from 0 to 0xffffffff", valid_part_id, true},
      {"VERBATIM_AGENT_TAG", "up to 32 letters, digits, '-' and '_'", valid_tag, false},
      {"VERBATIM_TEST_ALL", "0 or 1", valid_switch, false},
  };
  return table;
}

std::vector<std::string> complaints(const char* const* environment) {
  std::vector<std::string> found;
  for (; *environment; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    const auto& table = known_variables();
    const auto row = std::find_if(table.begin(), table.end(), [&](const Variable& v) { return v.name == name; });
    if (row == table.end())
      found.push_back(fmt::format("{} is no variable of this version; it is ignored", name));
    else if (!value.empty() && !row->valid(value))
      found.push_back(fmt::format("{} is '{}', not {}; it is ignored", name, value, row->form));
  }
  return found;
}

}  // namespace verbatim::tool
