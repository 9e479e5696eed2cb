#include "local/thread_state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/no_cancellation.h"

namespace verbatim::local {
namespace {

// What follows the line's name and a tab.
std::string_view value_of(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + name.size());
}

// The file of that name in /proc about the thread, as far as the buffer holds it; empty if it cannot be read.
template <size_t kSize>
std::string_view read_file(pid_t process, pid_t thread, const char* name, char (&buffer)[kSize]) {
  const NoCancellation guard;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/%s", process, thread, name);
  const FileDescriptor file(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t length = file.valid() ? read(file.get(), buffer, kSize) : 0;
  return {buffer, length > 0 ? static_cast<size_t>(length) : 0};
}

uint64_t number_of(std::string_view text, std::string_view name) {
  const std::string_view value = value_of(text, name);
  uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

}  // namespace

ThreadState thread_state(pid_t process, pid_t thread) {
  char buffer[4096];
  const std::string_view text = read_file(process, thread, "status", buffer);
  // The only line that holds what somebody else chose is the first, and cannot contain another.
  const std::string_view letter = value_of(text, "\nState:\t");
  return {letter.empty() ? char{0} : letter.front(),
          number_of(text, "\nvoluntary_ctxt_switches:\t") + number_of(text, "\nnonvoluntary_ctxt_switches:\t")};
}

bool has_ended(pid_t process, pid_t thread) { return syscall(SYS_tgkill, process, thread, 0) != 0 && errno == ESRCH; }

std::optional<long> system_call_of(pid_t process, pid_t thread) {
  char buffer[256];
  const std::string_view text = read_file(process, thread, "syscall", buffer);
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace verbatim::local
