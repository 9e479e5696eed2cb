// The one way a layer says something to a person. Off unless VERBATIM_LOG asks (verbatim(7));
// what a line costs when it is off is one relaxed load.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <string_view>

namespace verbatim {

enum class LogLevel : int { off = 0, warn = 1, info = 2, trace = 3 };

// Where lines go. write() is called from any thread, with a line without its newline, and must not throw.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view line) = 0;
};

namespace log_internal {
inline std::atomic<LogLevel> level{LogLevel::off};
inline std::atomic<LogSink*> sink{nullptr};
}  // namespace log_internal

// Installs the sink, which must live as long as the process. Called once, by runtime (and by tests).
inline void set_log(LogSink* sink, LogLevel level) {
  log_internal::sink.store(sink, std::memory_order_release);  // pairs with log()
  log_internal::level.store(sink ? level : LogLevel::off, std::memory_order_relaxed);
}

inline bool log_enabled(LogLevel level) { return level <= log_internal::level.load(std::memory_order_relaxed); }

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (!log_enabled(level)) return;
  LogSink* sink = log_internal::sink.load(std::memory_order_acquire);  // pairs with set_log()
  if (sink) sink->write(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace verbatim
