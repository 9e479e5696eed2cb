#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "reach.h"
#include "text_file.h"
#include "trial.h"

namespace verbatim::tool {
namespace {

constexpr uint64_t kUntouched = 0;
constexpr uint64_t kInTarget = 0x5645524241544941;
constexpr uint64_t kFromSibling = 0x4d4954414252454d;

// What the children inherit: the same address and the same descriptor in each of them.
struct Shared {
  uint64_t word = kUntouched;  // private: each child has its own
  FileDescriptor file;         // holds kInTarget
};

// A child with something to be reached. It lives as long as this object.
class Target {
 public:
  explicit Target(Shared& shared) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      error_ = errno;
      return;
    }
    const FileDescriptor ready(ends[0]);
    FileDescriptor told(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) live(shared, told.get());
    if (pid_ < 0) error_ = errno;
    told.reset();
    char byte;
    if (error_ == 0 && ::read(ready.get(), &byte, 1) != 1) error_ = ECHILD;
  }
  ~Target() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  int error() const { return error_; }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void live(Shared& shared, int told) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // As the library does where the scope is 1; EINVAL without Yama.
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    shared.word = kInTarget;
    if (::write(told, "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  pid_t pid_ = -1;
  int error_ = 0;
};

int error_of(ssize_t moved) {
  if (moved < 0) return errno;
  return moved == sizeof(uint64_t) ? 0 : EIO;
}

int copy_both_ways(pid_t pid, uint64_t* word) {
  uint64_t value = 0;
  const iovec here{&value, sizeof value};
  const iovec there{word, sizeof *word};
  if (const int error = error_of(::process_vm_readv(pid, &here, 1, &there, 1, 0))) return error;
  if (value != kInTarget) return EIO;
  value = kFromSibling;
  if (const int error = error_of(::process_vm_writev(pid, &here, 1, &there, 1, 0))) return error;
  value = 0;
  if (const int error = error_of(::process_vm_readv(pid, &here, 1, &there, 1, 0))) return error;
  return value == kFromSibling ? 0 : EIO;
}

int map_file_of(pid_t pid, int fd) {
  const FileDescriptor file(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return errno;
  const void* memory = ::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return errno;
  return *static_cast<const uint64_t*>(memory) == kInTarget ? 0 : EIO;
}

int make_file(Shared& shared) {
  shared.file = FileDescriptor(::memfd_create("verbatim-doctor", MFD_CLOEXEC));
  if (!shared.file.valid()) return errno;
  return error_of(::write(shared.file.get(), &kInTarget, sizeof kInTarget));
}

void try_siblings(Reach& reach) {
  Shared shared;
  const int no_file = make_file(shared);
  const Target target(shared);
  if (target.error() != 0) {
    reach.copy_error = reach.map_error = target.error();
    return;
  }
  reach.copy_error = try_in_child([&] { return copy_both_ways(target.pid(), &shared.word); });
  reach.map_error = no_file ? no_file : try_in_child([&] { return map_file_of(target.pid(), shared.file.get()); });
}

// The value of a line "NAME:<tab>VALUE" of /proc/self/status (proc(5)).
std::optional<uint64_t> status_value(const std::string& status, std::string_view name, int base) {
  const std::string key = fmt::format("\n{}:\t", name);
  const size_t found = status.find(key);
  if (found == std::string::npos) return std::nullopt;
  const char* first = status.data() + found + key.size();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(first, status.data() + status.size(), value, base);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

Reach probe_reach() {
  Reach reach;
  if (const std::optional<std::string> text = read_text("/proc/sys/kernel/yama/ptrace_scope"))
    std::from_chars(text->data(), text->data() + text->size(), reach.ptrace_scope);
  const std::string status = read_text("/proc/self/status").value_or("");
  reach.may_ptrace = status_value(status, "CapEff", 16).value_or(0) >> CAP_SYS_PTRACE & 1;
  reach.seccomp_filter = status_value(status, "Seccomp", 10).value_or(0) != 0;
  try_siblings(reach);
  return reach;
}

}  // namespace verbatim::tool
