#include "base/guarded_copy.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <type_traits>

namespace verbatim {

extern "C" {
// Labels in guarded_*.S: around the instructions that may be resumed, and where they resume.
[[gnu::visibility("hidden")]] extern const char verbatim_guarded_copy_end[];
[[gnu::visibility("hidden")]] extern const char verbatim_guarded_atomic[];
[[gnu::visibility("hidden")]] extern const char verbatim_guarded_atomic_end[];
[[gnu::visibility("hidden")]] extern const char verbatim_guarded_copy_fixup[];
}

namespace {

// What was installed for a signal before us. Immutable once published but for `spent`.
struct Previous {
  struct sigaction action;
  std::atomic<bool> spent;  // an SA_RESETHAND handler has had its one signal
};

// Static and never destroyed: a signal may come at any moment of the process's end.
struct Chain {
  int signal;
  Previous slots[2];
  std::atomic<Previous*> current;  // stored by install(), read by on_signal()
};
constinit Chain chains[] = {{.signal = SIGSEGV}, {.signal = SIGBUS}};

void on_signal(int signal, siginfo_t* info, void* context);
bool is_fault(int signal, const siginfo_t& info);
bool is_guarded(uintptr_t pc);
bool resume(const siginfo_t& info, ucontext_t& context);
void pass_on(Previous& previous, int signal, siginfo_t* info, void* context);
void die_by_default(int signal, siginfo_t* info);

bool has_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool same_action(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags &&
         std::memcmp(&a.sa_mask, &b.sa_mask, sizeof a.sa_mask) == 0;
}

// Ours borrows what the kernel does on the way into a handler (mask, stack, restarting of system calls) from the one
// it stands for, so that the kernel does exactly the same.
struct sigaction stand_in_for(const struct sigaction& previous) {
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  if (has_function(previous)) {
    ours.sa_mask = previous.sa_mask;
    ours.sa_flags = SA_SIGINFO | (previous.sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER));
  }
  return ours;
}

// The predecessor is published before our handler can run; the loop is for a thread that installs another in between.
Status install(Chain& chain) {
  struct sigaction previous;
  if (sigaction(chain.signal, nullptr, &previous) != 0) return {errno};
  for (Previous& slot : chain.slots) {
    slot.action = previous;
    chain.current.store(&slot, std::memory_order_release);  // pairs with on_signal()
    const struct sigaction ours = stand_in_for(slot.action);
    if (sigaction(chain.signal, &ours, &previous) != 0) return {errno};
    if (same_action(previous, slot.action) || previous.sa_sigaction == on_signal) return Status::success();
  }
  return {EAGAIN};
}

Status install_all() {
  for (Chain& chain : chains) {
    if (const Status status = install(chain); !status.ok()) return status;
  }
  return Status::success();
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (is_fault(signal, *info) && resume(*info, *static_cast<ucontext_t*>(context))) return;
  Chain& chain = signal == SIGSEGV ? chains[0] : chains[1];
  pass_on(*chain.current.load(std::memory_order_acquire), signal, info, context);
}

// Whether the interrupted instruction caused the signal: not so for one that was sent, nor for the early notice of a
// broken memory page, which concerns the process and not this instruction.
bool is_fault(int signal, const siginfo_t& info) {
  return info.si_code > 0 && !(signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

bool is_guarded(uintptr_t pc) {
  const auto copy = reinterpret_cast<uintptr_t>(&guarded_copy_internal::verbatim_guarded_copy);
  const auto copy_end = reinterpret_cast<uintptr_t>(verbatim_guarded_copy_end);
  const auto atomic = reinterpret_cast<uintptr_t>(verbatim_guarded_atomic);
  const auto atomic_end = reinterpret_cast<uintptr_t>(verbatim_guarded_atomic_end);
  return (pc >= copy && pc < copy_end) || (pc >= atomic && pc < atomic_end);
}

bool resume(const siginfo_t& info, ucontext_t& context) {
#if defined(__x86_64__)
  auto& pc = context.uc_mcontext.gregs[REG_RIP];
  auto& second_result = context.uc_mcontext.gregs[REG_RDX];
#elif defined(__aarch64__)
  auto& pc = context.uc_mcontext.pc;
  auto& second_result = context.uc_mcontext.regs[1];
#endif
  if (!is_guarded(static_cast<uintptr_t>(pc))) return false;
  const auto fixup = reinterpret_cast<uintptr_t>(verbatim_guarded_copy_fixup);
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  pc = static_cast<std::remove_reference_t<decltype(pc)>>(fixup);
  second_result = static_cast<std::remove_reference_t<decltype(second_result)>>(address);
  return true;
}

// Nothing follows the predecessor's call, so it may return, exit or jump away as it always could.
void pass_on(Previous& previous, int signal, siginfo_t* info, void* context) {
  const struct sigaction& action = previous.action;
  if (!has_function(action)) {
    // A fault cannot be ignored: Linux then takes the default action.
    if (action.sa_handler == SIG_IGN && !is_fault(signal, *info)) return;
    return die_by_default(signal, info);
  }
  if ((action.sa_flags & SA_RESETHAND) && previous.spent.exchange(true)) return die_by_default(signal, info);
  if (action.sa_flags & SA_SIGINFO) return action.sa_sigaction(signal, info, context);
  action.sa_handler(signal);
}

// The same signal with the same origin once more, now with the default action: it is delivered when the handler
// returns, so that the core shows the instruction, the registers and the address of the first time.
void die_by_default(int signal, siginfo_t* info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info) != 0) raise(signal);
}

}  // namespace

Status install_guard() {
  static const Status status = install_all();
  return status;
}

namespace guarded_copy_internal {

constinit thread_local bool thread_takes_faults = false;

void take_faults_in_this_thread() {
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  thread_takes_faults = true;
}

}  // namespace guarded_copy_internal

}  // namespace verbatim
