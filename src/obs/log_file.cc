#include "obs/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/no_cancellation.h"

namespace verbatim {
namespace {

// A write of up to PIPE_BUF bytes is whole on a pipe too, which stderr often is.
constexpr size_t kLongestLine = PIPE_BUF;
constexpr std::string_view kCut = "...\n";

// Keys and addresses are in the lines: nobody else's to read.
constexpr mode_t kMode = 0600;

class KeptErrno {
 public:
  ~KeptErrno() { errno = error_; }

 private:
  int error_ = errno;
};

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::off:
      return "off";
    case LogLevel::warn:
      return "warn";
    case LogLevel::info:
      return "info";
    case LogLevel::trace:
      return "trace";
  }
  return "?";
}

std::string format_line(pid_t pid, LogLevel level, std::string_view line) {
  std::string text = fmt::format("verbatim[{}] {}: {}", pid, name_of(level), line);
  std::ranges::replace(text, '\n', ' ');
  text += '\n';
  if (text.size() > kLongestLine) {
    text.resize(kLongestLine - kCut.size());
    text += kCut;
  }
  return text;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    // There is nowhere left to report to.
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

std::string absolute(std::string_view path) {
  std::error_code error;
  const std::filesystem::path result = std::filesystem::absolute(path, error);
  return error ? std::string(path) : result.string();
}

}  // namespace

LogFile::LogFile(std::string_view pattern) : pattern_(pattern.empty() ? std::string() : absolute(pattern)) {}

std::string LogFile::path_of(pid_t pid) const {
  std::string path;
  for (size_t i = 0; i < pattern_.size(); ++i) {
    const std::string_view pair = std::string_view(pattern_).substr(i, 2);
    if (pair == "%p") {
      path += std::to_string(pid);
      ++i;
    } else if (pair == "%%") {
      path += '%';
      ++i;
    } else {
      path += pattern_[i];
    }
  }
  return path;
}

void LogFile::write(LogLevel level, std::string_view line) {
  const KeptErrno kept;
  // open, write and close are cancellation points, and the caller may be in the middle of anything.
  const NoCancellation guard;
  const pid_t pid = getpid();
  const std::string text = format_line(pid, level, line);
  if (pattern_.empty()) {
    write_all(STDERR_FILENO, text);
  } else {
    write_to_file(pid, text);
  }
}

void LogFile::write_to_file(pid_t pid, const std::string& text) {
  const std::string path = path_of(pid);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode));
  if (!file.valid()) {
    complain_once(pid, path, errno);
    write_all(STDERR_FILENO, text);
    return;
  }
  write_all(file.get(), text);
}

void LogFile::complain_once(pid_t pid, const std::string& path, int error) {
  if (complained_in_.exchange(pid, std::memory_order_relaxed) == pid) return;
  const std::string reason = std::error_code(error, std::generic_category()).message();
  write_all(STDERR_FILENO, format_line(pid, LogLevel::warn,
                                       fmt::format("cannot open the log file {}: {}; lines go here", path, reason)));
}

}  // namespace verbatim
