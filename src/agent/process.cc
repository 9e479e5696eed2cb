#include "agent/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace verbatim::agent {
namespace {

// Enough for /proc/PID/stat and for the head of /proc/PID/status with the line we read.
constexpr size_t kMaxText = 4096;

// ENOENT of a path below /proc/PID means that the process is not there.
Status failed_to_read() { return {errno == ENOENT ? ESRCH : errno}; }

Result<std::string> read_text(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return failed_to_read();
  std::string text(kMaxText, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return failed_to_read();
  text.resize(static_cast<size_t>(size));
  return text;
}

// Takes the number at the front of text, skipping the blanks before it; false if there is none.
bool take_number(std::string_view& text, uint64_t& number) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

Result<UserIds> read_users(const std::string& folder) {
  Result<std::string> status = read_text(folder + "/status");
  if (!status.ok()) return status.status();
  std::string_view text = status.value();
  constexpr std::string_view kLabel = "\nUid:";
  const size_t line = text.find(kLabel);
  if (line == std::string_view::npos) return Status{EPROTO};
  text.remove_prefix(line + kLabel.size());
  std::array<uint64_t, 3> ids{};
  for (uint64_t& id : ids) {
    if (!take_number(text, id)) return Status{EPROTO};
  }
  return UserIds{static_cast<uint32_t>(ids[0]), static_cast<uint32_t>(ids[1]), static_cast<uint32_t>(ids[2])};
}

Result<uint64_t> read_start_time_in(const std::string& folder) {
  Result<std::string> stat = read_text(folder + "/stat");
  if (!stat.ok()) return stat.status();
  std::string_view text = stat.value();
  // Field 2 is the command's name in parentheses and may itself hold blanks and parentheses: the last one closes it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return Status{EPROTO};
  text.remove_prefix(name_end);
  constexpr int kFieldsBetween = 20;  // from the end of field 2 to the start of field 22
  for (int blank = 0; blank < kFieldsBetween; ++blank) {
    const size_t next = text.find(' ');
    if (next == std::string_view::npos) return Status{EPROTO};
    text.remove_prefix(next + 1);
  }
  uint64_t start_time = 0;
  if (!take_number(text, start_time)) return Status{EPROTO};
  return start_time;
}

Result<uint64_t> read_inode(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return failed_to_read();
  return uint64_t{file.st_ino};
}

Result<ProcessFacts> read_facts_in(const std::string& folder) {
  Result<UserIds> users = read_users(folder);
  if (!users.ok()) return users.status();
  Result<uint64_t> user_namespace = read_inode(folder + "/ns/user");
  if (!user_namespace.ok()) return user_namespace.status();
  Result<uint64_t> pid_namespace = read_inode(folder + "/ns/pid");
  if (!pid_namespace.ok()) return pid_namespace.status();
  Result<uint64_t> start_time = read_start_time_in(folder);
  if (!start_time.ok()) return start_time.status();
  return ProcessFacts{users.value(), {user_namespace.value(), pid_namespace.value()}, start_time.value()};
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

Result<ProcessFacts> read_facts(pid_t pid) { return read_facts_in(folder_of(pid)); }
Result<ProcessFacts> read_own_facts() { return read_facts_in("/proc/self"); }
Result<uint64_t> read_start_time(pid_t pid) { return read_start_time_in(folder_of(pid)); }

std::string read_own_name() {
  Result<std::string> name = read_text("/proc/self/comm");
  if (!name.ok()) return "";
  std::string text = name.take();
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<FileDescriptor> open_pidfd(pid_t pid) {
  FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return Status{errno};
  return pidfd;
}

bool has_ended(int pidfd) {
  pollfd wait{pidfd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

}  // namespace verbatim::agent
