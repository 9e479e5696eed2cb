// An XRC domain (ibv_open_xrcd(3)): the shared receive queues and receiving queue pairs that may meet. Of this process
// alone. Thread-safe.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"

namespace verbatim::model {

class XrcDomain {
 public:
  // Nobody uses it any more (in_use() is false) when it goes.
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_user() { users_.fetch_sub(1, std::memory_order_release); }  // pairs with in_use()
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<uint32_t> users_{0};
};

}  // namespace verbatim::model
