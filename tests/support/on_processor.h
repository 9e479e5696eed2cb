// Two threads that are to run at the very same time need a processor each. Test code only.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace verbatim::testing_support {

// Keeps this thread on the n-th of the processors it may use, if there are so many, for as long as this lives.
class OnProcessor {
 public:
  explicit OnProcessor(int n) {
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_) || n-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pthread_setaffinity_np(pthread_self(), sizeof one, &one);
      return;
    }
  }
  ~OnProcessor() { pthread_setaffinity_np(pthread_self(), sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace verbatim::testing_support
