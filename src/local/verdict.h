// Why an operation ended in error, or why it waits.
#pragma once

#include <string>

#include "base/log.h"
#include "proto/work.h"

namespace verbatim::local {

struct Verdict {
  CompletionStatus status = CompletionStatus::success;
  Reason reason = Reason::none;
  // The values that disagreed, in words; empty unless the log wants them.
  std::string detail;
};

template <class... Args>
void decide(Verdict& verdict, CompletionStatus status, Reason reason, fmt::format_string<Args...> format,
            Args&&... args) {
  verdict.status = status;
  verdict.reason = reason;
  if (log_enabled(LogLevel::warn)) verdict.detail = fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace verbatim::local
