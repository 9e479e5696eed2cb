// Holds off pthread_cancel for a scope: what must not end halfway calls something that is a cancellation point (open,
// write, a wait). A request that comes meanwhile takes effect at the thread's next cancellation point.
#pragma once

#include <pthread.h>

namespace verbatim {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); }
  ~NoCancellation() { pthread_setcancelstate(state_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int state_ = 0;
};

}  // namespace verbatim
