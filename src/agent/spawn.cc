#include "agent/spawn.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/sanitizer.h"

namespace verbatim::agent {
namespace {

constexpr size_t kStackSize = 64 * 1024;
constexpr int kBacklog = 128;

// The new process runs in our memory, on a stack of its own, while this thread waits (clone(2)). It must touch nothing
// that outlives it but `*error`, so it makes bare system calls, and is not instrumented: a sanitizer would take what it
// does for deeds of the waiting thread.
#ifdef VERBATIM_THREAD_SANITIZER
// It takes a clone for a fork, and would do the child's part of one in the memory that we share.
constexpr int kCloneFlags = CLONE_VFORK;
#else
constexpr int kCloneFlags = CLONE_VM | CLONE_VFORK;
#endif

#define VERBATIM_IN_CLONE __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

struct Plan {
  const AbstractName* name;
  const char* path;
  char* const* arguments;
  char* const* environment;
  char* second_stack_top;
  int* error;  // in shared memory: set by the new processes, read when they are gone or have become the program
};

VERBATIM_IN_CLONE int give_up(Plan* plan) {
  *plan->error = errno;
  return 1;
}

// The second process: it has what the first one opened, and becomes the program.
VERBATIM_IN_CLONE int become_program(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  // Signals to the caller's group are not for it. Not a session: the kernel may schedule sessions apart (sched(7),
  // autogroup), and then programs that spin can keep it from running for seconds.
  ::syscall(SYS_setpgid, 0, 0);
  ::syscall(SYS_execve, plan->path, plan->arguments, plan->environment);
  give_up(plan);
  // Who waits for this process is released before its descriptors are closed, and must find the address free.
  ::syscall(SYS_close, kListenDescriptor);
  return 1;
}

// In a descriptor table that was copied and emptied, the lowest free number is known: 0, 1, 2, then kListenDescriptor.
VERBATIM_IN_CLONE bool open_descriptors(const AbstractName& name) {
  if (::syscall(SYS_close_range, 0u, ~0u, 0u) != 0) return false;
  if (::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) != 0) return false;
  if (::syscall(SYS_dup, 0) != 1 || ::syscall(SYS_dup, 0) != 2) return false;
  if (::syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0) != kListenDescriptor) return false;
  if (::syscall(SYS_bind, kListenDescriptor, &name.address, name.length) != 0) return false;
  return ::syscall(SYS_listen, kListenDescriptor, kBacklog) == 0;
}

// The first process: its end makes an orphan of the second. CLONE_VFORK keeps it, and us, until the second has begun to
// run the program or failed to.
VERBATIM_IN_CLONE int open_and_start(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  if (!open_descriptors(*plan->name)) return give_up(plan);
  if (::clone(become_program, plan->second_stack_top, kCloneFlags, plan) < 0) return give_up(plan);
  return 0;
}

#undef VERBATIM_IN_CLONE

class Pages {
 public:
  explicit Pages(int sharing)
      : base_(::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() {
    if (valid()) ::munmap(base_, kStackSize);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  bool valid() const { return base_ != MAP_FAILED; }
  void* bottom() const { return base_; }
  char* top() const { return static_cast<char*>(base_) + kStackSize; }

 private:
  void* base_;
};

// A handler of the program's must not run in a process that shares its memory, and a cancelled thread must not leave
// the first process unreaped.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    ::pthread_sigmask(SIG_SETMASK, &all, &mask_);
  }
  ~Undisturbed() {
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    ::pthread_setcancelstate(cancel_state_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t mask_;
  int cancel_state_ = 0;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Status spawn_listening(const AbstractName& name, const std::string& path, const std::vector<std::string>& arguments,
                       const std::vector<std::string>& environment) {
  const Pages first(MAP_PRIVATE | MAP_STACK), second(MAP_PRIVATE | MAP_STACK), outcome(MAP_SHARED);
  if (!first.valid() || !second.valid() || !outcome.valid()) return {ENOMEM};
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  Plan plan{&name,
            path.c_str(),
            argument_pointers.data(),
            environment_pointers.data(),
            second.top(),
            static_cast<int*>(outcome.bottom())};

  const Undisturbed undisturbed;
  // Exit signal 0: its end is not announced, and only a wait that asks for such children (__WALL) finds it.
  const pid_t child = ::clone(open_and_start, first.top(), kCloneFlags, &plan);
  if (child < 0) return {errno};
  while (::waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  return {*plan.error};
}

}  // namespace verbatim::agent
