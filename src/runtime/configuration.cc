#include "runtime/configuration.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "obs/log_setting.h"

namespace verbatim::runtime {
namespace {

constexpr std::string_view kPrefix = "VERBATIM_";

// Sets its part of the configuration, or returns what it had expected instead.
using Setter = std::optional<std::string_view> (*)(Configuration&, std::string_view value);

struct Variable {
  std::string_view name;
  Setter set;
};

std::optional<uint32_t> parse_number(std::string_view text, uint32_t most) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

std::optional<std::string_view> set_log(Configuration& configuration, std::string_view value) {
  const std::optional<LogSetting> setting = parse_log_setting(value);
  if (!setting) return "off, warn, info or trace, then perhaps :FILE";
  configuration.log_level = setting->level;
  configuration.log_file = setting->file;
  return std::nullopt;
}

std::optional<std::string_view> set_vendor_id(Configuration& configuration, std::string_view value) {
  const std::optional<uint32_t> number = parse_number(value, 0xffffff);
  // Programs take 0 for a device that could not be asked.
  if (!number || *number == 0) return "a number from 1 to 0xffffff";
  configuration.vendor_id = number;
  return std::nullopt;
}

std::optional<std::string_view> set_vendor_part_id(Configuration& configuration, std::string_view value) {
  const std::optional<uint32_t> number = parse_number(value, UINT32_MAX);
  if (!number) return "a number from 0 to 0xffffffff";
  configuration.vendor_part_id = number;
  return std::nullopt;
}

// Hooks of the tests, which others read.
std::optional<std::string_view> leave_to_others(Configuration&, std::string_view) { return std::nullopt; }

constexpr std::array kVariables{
    Variable{"VERBATIM_LOG", set_log},
    Variable{"VERBATIM_VENDOR_ID", set_vendor_id},
    Variable{"VERBATIM_VENDOR_PART_ID", set_vendor_part_id},
    Variable{"VERBATIM_AGENT_TAG", leave_to_others},
    Variable{"VERBATIM_TEST_ALL", leave_to_others},
};

const Variable* find_variable(std::string_view name) {
  for (const Variable& variable : kVariables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

void read_variable(Configuration& configuration, std::string_view name, std::string_view value) {
  const Variable* variable = find_variable(name);
  if (variable == nullptr) {
    configuration.complaints.push_back(fmt::format("{} is not a variable of this version", name));
    return;
  }
  // Set but empty is how a script takes a variable back.
  if (value.empty()) return;
  const std::optional<std::string_view> expected = variable->set(configuration, value);
  if (expected) {
    configuration.complaints.push_back(fmt::format("{}={} is not understood: expected {}", name, value, *expected));
  }
}

}  // namespace

Configuration read_configuration(const char* const* environment) {
  Configuration configuration;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view setting = *environment;
    const size_t equals = setting.find('=');
    if (!setting.starts_with(kPrefix) || equals == setting.npos) continue;
    read_variable(configuration, setting.substr(0, equals), setting.substr(equals + 1));
  }
  return configuration;
}

const Configuration& configuration() {
  // Never destroyed: other threads may still log while the program exits.
  static const Configuration& once =
      *std::make_unique<const Configuration>(getauxval(AT_SECURE) != 0 ? Configuration() : read_configuration(environ))
           .release();
  return once;
}

}  // namespace verbatim::runtime
