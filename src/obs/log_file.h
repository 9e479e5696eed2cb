// A LogSink that writes whole lines, "verbatim[PID] warn: …", to a file or to stderr.
//
// Each line is one write(2) with O_APPEND, so lines of many threads and processes that share a file never mix. The file
// is opened for every line: a descriptor kept open would leak into forked children, and a program that closes all its
// descriptors to become a daemon would later hand the number to a file of its own.
//
// write() may be called from any thread, keeps errno, is no cancellation point, and throws nothing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <string_view>

#include "base/log.h"

namespace verbatim {

class LogFile final : public LogSink {
 public:
  // pattern: a path, in which "%p" stands for the process id and "%%" for "%"; empty: stderr. A relative path is
  // relative to the folder the process is in now, wherever it goes later.
  explicit LogFile(std::string_view pattern = {});

  void write(LogLevel level, std::string_view line) override;

  // The path that process `pid` writes to; empty: stderr.
  std::string path_of(pid_t pid) const;

 private:
  void write_to_file(pid_t pid, const std::string& text);
  void complain_once(pid_t pid, const std::string& path, int error);

  std::string pattern_;
  std::atomic<pid_t> complained_in_{0};  // the process that has said on stderr that its file cannot be opened
};

}  // namespace verbatim
