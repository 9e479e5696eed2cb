// Captures the log while it lives. Test code only; one at a time.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace verbatim::testing_support {

class LogLines final : public LogSink {
 public:
  explicit LogLines(LogLevel level) { set_log(this, level); }
  // Nobody else writes to the log any more.
  ~LogLines() override { set_log(nullptr, LogLevel::off); }
  LogLines(const LogLines&) = delete;

  void write(LogLevel, std::string_view line) override {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }

  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

  // How many of the lines not taken yet contain `words`.
  int count(std::string_view words) {
    std::lock_guard lock(mutex_);
    int found = 0;
    for (const std::string& line : lines_) found += line.find(words) != std::string::npos;
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace verbatim::testing_support
