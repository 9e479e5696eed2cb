#include "local/process_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "base/file_descriptor.h"

namespace verbatim::local {
namespace {

constexpr size_t kLine = 64;

using Result = ProcessMemory::Result;
using Outcome = ProcessMemory::Outcome;
using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// What is left of a transfer: the rest of the local pieces and the rest of the remote range.
class Rest {
 public:
  Rest(std::span<const iovec> local, uint64_t remote_address, size_t length)
      : remote_(remote_address), length_(length) {
    assert(local.size() <= ProcessMemory::kMaxPieces && length <= ProcessMemory::kMaxLength);
    for (const iovec& piece : local) {
      const size_t wanted = std::min(piece.iov_len, length);
      if (wanted > 0) pieces_[count_++] = {piece.iov_base, wanted};
      length -= wanted;
    }
    assert(length == 0);
  }

  size_t length() const { return length_; }
  const iovec* pieces() const { return pieces_.data() + first_; }
  size_t count() const { return count_ - first_; }
  void* local_address() const { return pieces_[first_].iov_base; }
  uint64_t remote_address() const { return remote_; }
  uint64_t last_local_address() const {
    const iovec& piece = pieces_[count_ - 1];
    return reinterpret_cast<uint64_t>(piece.iov_base) + piece.iov_len - 1;
  }

  void advance(size_t moved) {
    remote_ += moved;
    length_ -= moved;
    while (moved > 0) {
      iovec& piece = pieces_[first_];
      const size_t step = std::min(piece.iov_len, moved);
      piece.iov_base = static_cast<char*>(piece.iov_base) + step;
      piece.iov_len -= step;
      moved -= step;
      if (piece.iov_len == 0) ++first_;
    }
  }

 private:
  std::array<iovec, ProcessMemory::kMaxPieces> pieces_;
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t remote_;
  size_t length_;
};

iovec remote_piece(uint64_t address, size_t length) { return {reinterpret_cast<void*>(address), length}; }

// One system call for all that is left, with the last `tail` bytes as a piece of their own: the kernel copies piece
// after piece.
ssize_t call_once(Call call, pid_t thread, const Rest& rest, size_t tail) {
  std::array<iovec, 2> remote;
  size_t count = 0;
  const size_t head = rest.length() - std::min(tail, rest.length());
  if (head > 0) remote[count++] = remote_piece(rest.remote_address(), head);
  if (tail > 0) remote[count++] = remote_piece(rest.remote_address() + head, rest.length() - head);
  return call(thread, rest.pieces(), rest.count(), remote.data(), count, 0);
}

// ESRCH for a pid whose process still lives: its first thread has ended, so it is reached through another.
std::optional<pid_t> living_thread(pid_t pid) {
  for (const pid_t thread : threads_of(pid)) {
    char byte;
    const iovec local = {&byte, 1};
    const iovec nowhere = remote_piece(0, 1);
    if (process_vm_readv(thread, &local, 1, &nowhere, 1, 0) >= 0 || errno != ESRCH) return thread;
  }
  return std::nullopt;
}

// Whether one byte of ours can be read, asked in the way of a write: by the kernel, from user memory.
bool readable_here(const void* address) {
  char byte;
  const iovec local = {const_cast<void*>(address), 1};
  const iovec remote = {&byte, 1};
  return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 1;
}

bool readable_there(pid_t thread, uint64_t address) {
  char byte;
  const iovec local = {&byte, 1};
  const iovec remote = remote_piece(address, 1);
  return process_vm_readv(thread, &local, 1, &remote, 1, 0) == 1;
}

// The kernel says EFAULT for either side. By then nothing before the fault is left, so one byte tells which; it is
// always the source that is tried, since trying a destination would change it.
Result whose_fault(Call call, pid_t thread, const Rest& rest) {
  if (call == process_vm_writev) {
    return readable_here(rest.local_address()) ? Result::remote_fault : Result::local_fault;
  }
  return readable_there(thread, rest.remote_address()) ? Result::local_fault : Result::remote_fault;
}

Outcome transfer(Call call, pid_t pid, Rest rest, size_t tail) {
  const size_t length = rest.length();
  pid_t thread = pid;
  while (rest.length() > 0) {
    const ssize_t moved = call_once(call, thread, rest, tail);
    if (moved > 0) {
      rest.advance(static_cast<size_t>(moved));
      continue;
    }
    const int error = moved < 0 ? errno : EFAULT;
    const size_t so_far = length - rest.length();
    if (error == ESRCH) {
      const std::optional<pid_t> other = living_thread(pid);
      if (!other) return {Result::dead, so_far};
      thread = *other;
      continue;
    }
    if (error == EFAULT) return {whose_fault(call, thread, rest), so_far};
    return {Result::forbidden, so_far};
  }
  return {Result::done, length};
}

// How many of the last bytes lie in the last cache line of the destination.
size_t tail_of(uint64_t last_address, size_t length, bool ends_message) {
  if (!ends_message || length == 0) return 0;
  return std::min<size_t>(last_address % kLine + 1, length);
}

}  // namespace

Outcome ProcessMemory::write(std::span<const iovec> local, uint64_t remote_address, size_t length,
                             bool ends_message) const {
  return transfer(process_vm_writev, pid_, Rest(local, remote_address, length),
                  tail_of(remote_address + length - 1, length, ends_message));
}

Outcome ProcessMemory::read(std::span<const iovec> local, uint64_t remote_address, size_t length,
                            bool ends_message) const {
  const Rest rest(local, remote_address, length);
  const size_t tail = length > 0 ? tail_of(rest.last_local_address(), length, ends_message) : 0;
  return transfer(process_vm_readv, pid_, rest, tail);
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (!directory) return threads;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    pid_t thread = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (error == std::errc() && end == name.data() + name.size()) threads.push_back(thread);
  }
  return threads;
}

int ptrace_scope(const char* path) {
  const FileDescriptor file(open(path, O_RDONLY | O_CLOEXEC));
  char text[16];
  const ssize_t length = file.valid() ? read(file.get(), text, sizeof text) : -1;
  int scope = 0;
  if (length > 0) std::from_chars(text, text + length, scope);
  return scope;
}

Status allow_peers(int scope) {
  if (scope != 1) return Status::success();
  if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) != 0) return {errno};
  return Status::success();
}

}  // namespace verbatim::local
