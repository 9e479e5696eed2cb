#include "local/process_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/watched_call.h"

namespace verbatim::local {
namespace {

constexpr size_t kLine = 64;

using Result = ProcessMemory::Result;
using Outcome = ProcessMemory::Outcome;

iovec remote_piece(uint64_t address, size_t length) { return {reinterpret_cast<void*>(address), length}; }

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

// Lack of memory passes.
bool lasts(int error) { return error == EPERM || error == ENOSYS; }

}  // namespace

// The local pieces, cut to the length, and the remote range.
class ProcessMemory::Transfer {
 public:
  Transfer(long call, std::span<const iovec> local, uint64_t remote, size_t length)
      : call_(call), remote_(remote), length_(length) {
    assert(local.size() <= kMaxPieces && length <= kMaxLength);
    for (const iovec& piece : local) {
      const size_t wanted = std::min(piece.iov_len, length);
      if (wanted > 0) pieces_[count_++] = {piece.iov_base, wanted};
      length -= wanted;
    }
    assert(length == 0);
  }

  const char* name() const { return call_ == SYS_process_vm_writev ? "process_vm_writev" : "process_vm_readv"; }

  // The last bytes begin a local piece: the kernel copies piece after piece. A remote one would do too, but the kernel
  // looks up the pages of each anew, which takes 0.2 to 0.4 us.
  void put_last_line_last() {
    size_t tail = (destination_end() - 1) % kLine + 1;
    if (tail >= length_) return;
    size_t i = count_ - 1;
    for (; tail > pieces_[i].iov_len; --i) tail -= pieces_[i].iov_len;
    const size_t head = pieces_[i].iov_len - tail;
    if (head == 0) return;
    std::copy_backward(pieces_.begin() + i, pieces_.begin() + count_, pieces_.begin() + count_ + 1);
    ++count_;
    pieces_[i].iov_len = head;
    pieces_[i + 1] = {static_cast<std::byte*>(pieces_[i].iov_base) + head, tail};
  }

  long once(pid_t thread) const {
    const iovec remote = remote_piece(remote_, length_);
    return watched_call(call_, {thread, reinterpret_cast<long>(pieces_.data()), static_cast<long>(count_),
                                reinterpret_cast<long>(&remote), 1, 0});
  }

  // The kernel says EFAULT for either side when there was no byte to move, so one byte tells which; it is always the
  // source that is tried, since trying a destination would change it.
  Result whose_fault(pid_t thread) const {
    if (call_ == SYS_process_vm_writev)
      return readable_here(pieces_[0].iov_base) ? Result::remote_fault : Result::local_fault;
    return readable_there(thread, remote_) ? Result::local_fault : Result::remote_fault;
  }

 private:
  uint64_t destination_end() const {
    if (call_ == SYS_process_vm_writev) return remote_ + length_;
    return reinterpret_cast<uint64_t>(pieces_[count_ - 1].iov_base) + pieces_[count_ - 1].iov_len;
  }

  std::array<iovec, kMaxPieces + 1> pieces_;
  size_t count_ = 0;
  long call_;
  uint64_t remote_;
  size_t length_;
};

Outcome ProcessMemory::run(const Transfer& transfer, std::atomic<bool>& refused) const {
  if (refused.load(std::memory_order_relaxed)) return {Result::forbidden};
  const pid_t thread = thread_.load(std::memory_order_relaxed);
  const long answer = transfer.once(thread);
  if (answer == kCallNotMade) return {};
  if (answer > 0) return {Result::done, static_cast<size_t>(answer)};
  if (answer == 0 || answer == -EFAULT) return {transfer.whose_fault(thread)};
  if (answer == -ESRCH) {
    const std::optional<pid_t> other = living_thread(pid_);
    if (!other) return {Result::dead};
    thread_.store(*other, std::memory_order_relaxed);
    return {};
  }
  const int error = static_cast<int>(-answer);
  if (lasts(error) && !refused.exchange(true, std::memory_order_relaxed))
    log(LogLevel::info, "process {}: {}: {}; from now on it moves such data itself", pid_, transfer.name(),
        strerror(error));
  return {Result::forbidden};
}

Outcome ProcessMemory::write(std::span<const iovec> local, uint64_t remote_address, size_t length,
                             bool ends_message) const {
  if (length == 0) return {};
  Transfer transfer(SYS_process_vm_writev, local, remote_address, length);
  if (ends_message) transfer.put_last_line_last();
  return run(transfer, write_refused_);
}

Outcome ProcessMemory::read(std::span<const iovec> local, uint64_t remote_address, size_t length,
                            bool ends_message) const {
  if (length == 0) return {};
  Transfer transfer(SYS_process_vm_readv, local, remote_address, length);
  if (ends_message) transfer.put_last_line_last();
  return run(transfer, read_refused_);
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
