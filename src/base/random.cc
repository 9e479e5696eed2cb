#include "base/random.h"

#include <sys/random.h>

#include "base/no_cancellation.h"

namespace verbatim {

uint64_t random_u64() {
  const NoCancellation guard;
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

}  // namespace verbatim
