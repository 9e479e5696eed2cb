// What VERBATIM_LOG says: LEVEL[:FILE] (verbatim(7)). Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/log.h"

namespace verbatim {

struct LogSetting {
  LogLevel level = LogLevel::off;
  std::string_view file;  // a pattern as obs/log_file.h takes it; empty: stderr. Borrowed from the value
};

// Nothing when the value is not understood.
std::optional<LogSetting> parse_log_setting(std::string_view value);

}  // namespace verbatim
