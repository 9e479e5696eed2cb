#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/log_lines.h"

namespace verbatim {
namespace {

using testing_support::LogLines;

struct Counted {
  int* formatted;
};

}  // namespace
}  // namespace verbatim

template <>
struct fmt::formatter<verbatim::Counted> : fmt::formatter<int> {
  auto format(const verbatim::Counted& value, format_context& context) const {
    return fmt::formatter<int>::format(++*value.formatted, context);
  }
};

namespace verbatim {
namespace {

TEST(Log, IsOffUnlessAsked) {
  EXPECT_FALSE(log_enabled(LogLevel::warn));
  int formatted = 0;
  log(LogLevel::warn, "{}", Counted{&formatted});
  EXPECT_EQ(formatted, 0) << "a line that nobody wants was put into words";
}

TEST(Log, LinesUpToTheLevelReachTheSink) {
  LogLines lines(LogLevel::info);
  log(LogLevel::warn, "a {}", 1);
  log(LogLevel::info, "b {}", 2);
  log(LogLevel::trace, "c {}", 3);
  EXPECT_EQ(lines.take(), (std::vector<std::string>{"a 1", "b 2"}));
}

TEST(Log, WithoutASinkNothingIsEnabledWhateverTheLevel) {
  set_log(nullptr, LogLevel::trace);
  EXPECT_FALSE(log_enabled(LogLevel::warn));
  log(LogLevel::warn, "nobody hears this");
}

TEST(Log, ThreadsMayWriteAtOnce) {
  constexpr int kThreads = 4, kLines = 500;
  LogLines lines(LogLevel::warn);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      for (int j = 0; j < kLines; ++j) log(LogLevel::warn, "{} {}", i, j);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines.take().size(), size_t{kThreads * kLines});
}

}  // namespace
}  // namespace verbatim
