// Another process's memory through process_vm_readv and process_vm_writev: no mapping, no part of the other process.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace verbatim::local {

// Names a process by its pid, and owns nothing: whoever uses it knows from elsewhere (a pidfd) that the pid still means
// the same process. A way that was refused once stays so: asking again would cost a system call for each slice, and
// under Yama a line of the kernel's log. Any thread.
class ProcessMemory {
 public:
  // What one call is asked for at most: twice as much would be no faster, and whoever revokes waits for it.
  static constexpr size_t kMaxLength = 256 * 1024;
  static constexpr size_t kMaxPieces = 32;

  enum class Result {
    done,          // as far as `moved` says
    local_fault,   // our own memory could not be touched
    remote_fault,  // the other process's memory could not be touched
    forbidden,     // ptrace rules, a seccomp filter or the kernel do not allow this way: take another
    dead,          // there is no such process any more
  };

  struct Outcome {
    Result result = Result::done;
    // Bytes. Fewer than asked for, or none, when the thread was interrupted or the kernel stopped early: who may still
    // do so goes on from there.
    size_t moved = 0;
  };

  explicit ProcessMemory(pid_t pid) : pid_(pid), thread_(pid) {}
  pid_t pid() const { return pid_; }

  // Moves up to `length` (≤ kMaxLength) bytes between the beginning of `local` (≤ kMaxPieces pieces that hold at least
  // as many) and `remote_address`, by one call that a thread watched for kCallSequence (base/watched_call.h) does not
  // make once it was interrupted. When the bytes end their message, its last cache line is copied after all the rest of
  // it, as those who spin on it expect.
  [[nodiscard]] Outcome write(std::span<const iovec> local, uint64_t remote_address, size_t length,
                              bool ends_message) const;
  [[nodiscard]] Outcome read(std::span<const iovec> local, uint64_t remote_address, size_t length,
                             bool ends_message) const;

 private:
  class Transfer;
  Outcome run(const Transfer& transfer, std::atomic<bool>& refused) const;

  pid_t pid_;
  // By which it is reached: not the first one when that has ended. Any thread of ours may find another.
  mutable std::atomic<pid_t> thread_;
  // Independent of all other memory.
  mutable std::atomic<bool> write_refused_{false};
  mutable std::atomic<bool> read_refused_{false};
};

// The threads of a process, as /proc shows them to us; empty when it is gone. A process goes on living when its first
// thread, whose number is the pid, has ended; /proc/PID and process_vm_* of that number then find nothing.
std::vector<pid_t> threads_of(pid_t pid);

// Yama's rule about who may reach another process's memory (kernel documentation, admin-guide/LSM/Yama): 0 the same
// user, 1 ancestors and those it names, 2 administrators, 3 nobody. 0 where Yama is absent.
inline constexpr const char* kPtraceScopePath = "/proc/sys/kernel/yama/ptrace_scope";
int ptrace_scope(const char* path = kPtraceScopePath);

// Lets our peers reach our registered memory where Yama would let only our ancestors: any process of the same user may
// then read and write ours, as everywhere without Yama. Done in scope 1 alone: scope 0 needs no permission, and 2 and 3
// give none. The caller decides; what it does lasts for the life of the process, and a forked child does not inherit
// it.
Status allow_peers(int scope);

}  // namespace verbatim::local
