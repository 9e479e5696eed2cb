// A program with the guard installed must meet its own signals exactly as without it. Each scenario runs in a process
// of its own (threadsafe death tests execute the program anew), once without and once with the guard.
#include <elf.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/guarded_copy.h"
#include "base/sanitizer.h"

namespace verbatim {
namespace {

#if defined(VERBATIM_ADDRESS_SANITIZER) || defined(VERBATIM_THREAD_SANITIZER)
constexpr bool kSanitized = true;  // the sanitizer's own handler is what was installed before: it reports and exits
#else
constexpr bool kSanitized = false;
#endif

constexpr int kRight = 42;
constexpr int kWrong = 43;
constexpr int kSurvived = 44;

[[noreturn]] void finish(bool right) { _exit(right ? kRight : kWrong); }

// Whether a process ended as one does that takes this signal's default action.
class DiesBy {
 public:
  explicit DiesBy(int signal) : signal_(signal) {}
  bool operator()(int status) const {
    if (WIFSIGNALED(status)) return WTERMSIG(status) == signal_;
    return kSanitized && WIFEXITED(status) && WEXITSTATUS(status) != kSurvived && WEXITSTATUS(status) != kWrong;
  }

 private:
  int signal_;
};

char* protected_page() {
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) _exit(kWrong);
  return static_cast<char*>(page);
}

char* page_beyond_the_file() {
  const int fd = memfd_create("empty", MFD_CLOEXEC);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) _exit(kWrong);
  return static_cast<char*>(page);
}

__attribute__((no_sanitize("address", "thread"), noinline)) void touch(char* address) {
  *static_cast<volatile char*>(address) = 1;
}

auto program_counter(const user_regs_struct& registers) {
#if defined(__x86_64__)
  return registers.rip;
#elif defined(__aarch64__)
  return registers.pc;
#endif
}

// The parameter is whether the guard is there: both must give the same.
class OtherSignals : public testing::TestWithParam<bool> {
 protected:
  OtherSignals() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  // Installs the guard if this run is one with it, and shows that it works, so that it has already had a fault.
  static void guard() {
    if (!GetParam()) return;
    if (!install_guard().ok()) _exit(kWrong);
    check_guard();
  }
  static void check_guard() {
    CopyFault fault;
    char byte = 0;
    char* gone = protected_page();
    if (guarded_copy(&byte, gone, 1, &fault) || fault.address != gone) _exit(kWrong);
  }
  static void check_guard_if_there() {
    if (GetParam()) check_guard();
  }
};

void set_action(int signal, void (*function)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) _exit(kWrong);
}

TEST_P(OtherSignals, AFaultElsewhereKillsTheProgram) {
  EXPECT_EXIT((guard(), touch(protected_page()), _exit(kSurvived)), DiesBy(SIGSEGV), "");
  EXPECT_EXIT((guard(), touch(page_beyond_the_file()), _exit(kSurvived)), DiesBy(SIGBUS), "");
}

TEST_P(OtherSignals, ASentSignalKillsTheProgram) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    EXPECT_EXIT((guard(), kill(getpid(), signal), pause(), _exit(kSurvived)), DiesBy(signal), "");
    EXPECT_EXIT((guard(), raise(signal), _exit(kSurvived)), DiesBy(signal), "");
  }
}

// ptrace sees what a core file would record: the signal's origin, and the instruction it found the program at.
TEST_P(OtherSignals, WhatKillsTheProgramStillNamesTheFaultingAddress) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's handler ends the process itself";
  char* page = protected_page();
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kWrong);
    if (GetParam() && !install_guard().ok()) _exit(kWrong);
    touch(page + 5);
    _exit(kSurvived);
  }
  siginfo_t info{};
  uintptr_t first_pc = 0;
  int status = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ASSERT_EQ(ptrace(PTRACE_GETSIGINFO, child, nullptr, &info), 0);
    user_regs_struct registers{};
    iovec set = {&registers, sizeof registers};
    ASSERT_EQ(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &set), 0);
    const auto pc = static_cast<uintptr_t>(program_counter(registers));
    if (first_pc == 0) first_pc = pc;
    EXPECT_EQ(pc, first_pc) << "the last stop is at the instruction of the first";
    ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, WSTOPSIG(status)), 0);
  }
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(info.si_addr, page + 5);
  EXPECT_EQ(info.si_code, SEGV_ACCERR);
}

TEST_P(OtherSignals, AnIgnoredSignalIsIgnoredWhenSentAndKillsWhenCaused) {
  const auto ignore = [] {
    signal(SIGSEGV, SIG_IGN);
    guard();
    kill(getpid(), SIGSEGV);
    check_guard_if_there();
  };
  EXPECT_EXIT((ignore(), finish(true)), testing::ExitedWithCode(kRight), "");
  EXPECT_EXIT((ignore(), touch(protected_page()), _exit(kSurvived)), testing::KilledBySignal(SIGSEGV), "");
}

std::atomic<char*> expected_address;

TEST_P(OtherSignals, APlainHandlerGetsItsSignal) {
  const auto scenario = [] {
    signal(SIGBUS, [](int number) { finish(number == SIGBUS); });
    guard();
    touch(page_beyond_the_file());
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerGetsTheAddressOfTheFault) {
  const auto scenario = [] {
    set_action(
        SIGSEGV,
        [](int number, siginfo_t* info, void* context) {
          finish(number == SIGSEGV && info->si_addr == expected_address && info->si_code == SEGV_ACCERR && context);
        },
        0);
    guard();
    expected_address = protected_page() + 17;
    touch(expected_address);
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerGetsTheValueSentWithASignal) {
  const auto scenario = [] {
    set_action(
        SIGSEGV,
        [](int, siginfo_t* info, void*) {
          finish(info->si_code == SI_QUEUE && info->si_value.sival_int == 1234 && info->si_pid == getpid());
        },
        0);
    guard();
    sigqueue(getpid(), SIGSEGV, {.sival_int = 1234});
    pause();
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerThatRepairsTheFaultLetsTheProgramGoOn) {
  const auto scenario = [] {
    set_action(
        SIGSEGV, [](int, siginfo_t* info, void*) { mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE); }, 0);
    guard();
    char* page = protected_page();
    touch(page);
    check_guard_if_there();
    finish(*page == 1);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerRunsWithItsOwnMask) {
  if (kThreadSanitizer) GTEST_SKIP() << "it runs every handler with all signals blocked, with or without us";
  const auto scenario = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {
      sigset_t now;
      pthread_sigmask(SIG_BLOCK, nullptr, &now);
      finish(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2) && sigismember(&now, SIGSEGV));
    };
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, nullptr);
    guard();
    touch(protected_page());
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerThatMayNestNests) {
  if (kThreadSanitizer) GTEST_SKIP() << "it runs every handler with all signals blocked, with or without us";
  const auto scenario = [] {
    set_action(
        SIGSEGV,
        [](int, siginfo_t* info, void*) {
          if (info->si_addr == expected_address) finish(true);
          touch(expected_address);
          finish(false);
        },
        SA_NODEFER);
    guard();
    char* first = protected_page();
    expected_address = protected_page();
    touch(first);
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, AHandlerForOneSignalIsAskedOnce) {
  const auto repair = [](int, siginfo_t* info, void*) { mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE); };
  const auto first_fault = [&] {
    set_action(SIGSEGV, repair, SA_RESETHAND);
    guard();
    touch(protected_page());
    check_guard_if_there();
  };
  EXPECT_EXIT((first_fault(), finish(true)), testing::ExitedWithCode(kRight), "");
  EXPECT_EXIT((first_fault(), touch(protected_page()), _exit(kSurvived)), testing::KilledBySignal(SIGSEGV), "");
}

sigjmp_buf after_fault;

TEST_P(OtherSignals, AHandlerMayJumpAwayAgainAndAgain) {
  const auto scenario = [] {
    set_action(
        SIGSEGV, [](int, siginfo_t*, void*) { siglongjmp(after_fault, 1); }, 0);
    guard();
    char* page = protected_page();
    if (sigsetjmp(after_fault, 1) == 0) touch(page), finish(false);
    check_guard_if_there();
    if (sigsetjmp(after_fault, 1) == 0) touch(page), finish(false);
    check_guard_if_there();
    finish(true);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

char* stack_begin;
constexpr size_t kStackLength = 256 * 1024;

bool on_alternate_stack() {
  const char* here = static_cast<char*>(__builtin_frame_address(0));
  return here >= stack_begin && here < stack_begin + kStackLength;
}

void use_alternate_stack() {
  void* memory = mmap(nullptr, kStackLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_begin = static_cast<char*>(memory);
  const stack_t stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = kStackLength};
  if (sigaltstack(&stack, nullptr) != 0) _exit(kWrong);
}

TEST_P(OtherSignals, AHandlerRunsOnTheAlternateStackIfItAskedForIt) {
  const auto scenario = [](int flags, bool expected) {
    static bool alternate;
    alternate = expected;
    use_alternate_stack();
    set_action(
        SIGSEGV, [](int, siginfo_t*, void*) { finish(on_alternate_stack() == alternate); }, flags);
    guard();
    touch(protected_page());
    _exit(kSurvived);
  };
  EXPECT_EXIT(scenario(SA_ONSTACK, true), testing::ExitedWithCode(kRight), "");
  EXPECT_EXIT(scenario(0, false), testing::ExitedWithCode(kRight), "");
}

__attribute__((noinline, no_sanitize("address", "thread"))) int exhaust_stack(int depth) {
  volatile char frame[4096] = {};
  if (depth == 0) return frame[17];
  return exhaust_stack(depth - 1) + frame[depth % 4096];
}

TEST_P(OtherSignals, AStackOverflowReachesTheHandlerOnTheAlternateStack) {
  const auto scenario = [] {
    use_alternate_stack();
    set_action(
        SIGSEGV, [](int, siginfo_t*, void*) { finish(on_alternate_stack()); }, SA_ONSTACK);
    guard();
    _exit(exhaust_stack(1 << 30) ? kSurvived : kWrong);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

TEST_P(OtherSignals, ASignalSentDuringACopyIsNotTakenForAFault) {
  if (kThreadSanitizer) GTEST_SKIP() << "it runs the handler of a sent SIGSEGV at once, under its own locks too";
  const auto scenario = [] {
    static std::atomic<int> taken{0};
    set_action(
        SIGSEGV, [](int, siginfo_t*, void*) { ++taken; }, 0);
    guard();
    const pid_t self = getpid();
    std::vector<char> from(1 << 20, 1), to(1 << 20);
    const pid_t sender = fork();
    if (sender == 0) {
      for (int i = 0; i < 200; ++i) kill(self, SIGSEGV), usleep(100);
      _exit(0);
    }
    CopyFault fault;
    bool right = true;
    while (waitpid(sender, nullptr, WNOHANG) == 0) {
      right = right && (!GetParam() || guarded_copy(to.data(), from.data(), to.size(), &fault));
    }
    finish(right && taken > 0);
  };
  EXPECT_EXIT(scenario(), testing::ExitedWithCode(kRight), "");
}

INSTANTIATE_TEST_SUITE_P(, OtherSignals, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithTheGuard" : "WithoutTheGuard"; });

}  // namespace
}  // namespace verbatim
