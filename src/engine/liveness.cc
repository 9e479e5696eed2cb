#include "engine/liveness.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::engine {

LivenessMark::~LivenessMark() {
  if (!word_) return;
  syscall(SYS_set_robust_list, nullptr, sizeof head_);
  word_->store(FUTEX_OWNER_DIED, std::memory_order_release);
}

void LivenessMark::set(std::atomic<uint32_t>& word) {
  word_ = &word;
  node_.next = &head_.list;
  head_.list.next = &node_;
  // The kernel finds a node's futex word at this distance.
  head_.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&node_);
  syscall(SYS_set_robust_list, &head_, sizeof head_);
  word.store(static_cast<uint32_t>(gettid()), std::memory_order_release);  // pairs with wait_until_alive()
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void wait_until_alive(const std::atomic<uint32_t>& word) {
  while (word.load(std::memory_order_acquire) == 0) syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
}

}  // namespace verbatim::engine
