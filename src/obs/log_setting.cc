#include "obs/log_setting.h"

#include <array>
#include <utility>

namespace verbatim {
namespace {

std::optional<LogLevel> parse_level(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, LogLevel>, 4> kLevels{
      {{"off", LogLevel::off}, {"warn", LogLevel::warn}, {"info", LogLevel::info}, {"trace", LogLevel::trace}}};
  for (const auto& [name, level] : kLevels) {
    if (name == text) return level;
  }
  return std::nullopt;
}

}  // namespace

std::optional<LogSetting> parse_log_setting(std::string_view value) {
  const size_t colon = value.find(':');
  const std::optional<LogLevel> level = parse_level(value.substr(0, colon));
  const std::string_view file = colon == value.npos ? std::string_view() : value.substr(colon + 1);
  if (!level || (colon != value.npos && file.empty())) return std::nullopt;
  return LogSetting{*level, file};
}

}  // namespace verbatim
