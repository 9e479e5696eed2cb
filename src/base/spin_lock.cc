#include "base/spin_lock.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verbatim {
namespace {

constexpr int kLooks = 100;
constexpr int kYields = 100;
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 50'000};

}  // namespace

void SpinLock::wait() {
  for (int round = 0;; ++round) {
    for (int look = 0; look < kLooks; ++look)
      if (try_lock()) return;
    if (round < kYields)
      sched_yield();
    else
      syscall(SYS_nanosleep, &kPause, nullptr);  // the library's own is a cancellation point
  }
}

}  // namespace verbatim
