#include "obs/log_setting.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(LogSetting, IsALevelAndPerhapsAFile) {
  struct Row {
    const char* value;
    LogLevel level;
    const char* file;
  };
  constexpr Row kRows[] = {{"off", LogLevel::off, ""},
                           {"warn", LogLevel::warn, ""},
                           {"info:/tmp/a", LogLevel::info, "/tmp/a"},
                           {"trace:a:b", LogLevel::trace, "a:b"}};
  for (const Row& row : kRows) {
    const std::optional<LogSetting> setting = parse_log_setting(row.value);
    ASSERT_TRUE(setting) << row.value;
    EXPECT_EQ(setting->level, row.level) << row.value;
    EXPECT_EQ(setting->file, row.file) << row.value;
  }
}

TEST(LogSetting, IsNothingElse) {
  for (const char* value : {"", "loud", "WARN", "info:", ":/tmp/a", "info /tmp/a"})
    EXPECT_FALSE(parse_log_setting(value)) << value;
}

}  // namespace
}  // namespace verbatim
