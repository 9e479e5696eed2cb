// What a thread of another process is doing, as the kernel shows it to everybody (proc_pid_status(5)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace verbatim::local {

struct ThreadState {
  // As the kernel abbreviates it: R running or about to, S and D asleep, T stopped by a signal, t by a tracer. 0: not
  // to be seen.
  char letter = 0;
  // How often it was put off its processor.
  uint64_t switches = 0;

  bool operator==(const ThreadState&) const = default;
};

// These allocate nothing. Any thread.
ThreadState thread_state(pid_t process, pid_t thread);
bool has_ended(pid_t process, pid_t thread);
// The number of the system call in which it sleeps, -1 if in none; nothing while it runs or where we may not see it.
std::optional<long> system_call_of(pid_t process, pid_t thread);

}  // namespace verbatim::local
