// The kernel as witness of a process's death: a robust futex (set_robust_list(2), futex(2)). When the thread that
// marked the word ends for any reason, kill -9 and exec included, the kernel sets FUTEX_OWNER_DIED in it, before the
// process id can be given to anybody else.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

namespace verbatim::engine {

// Lives on the stack of the thread that it watches over, for as long as that thread runs. The thread uses no robust
// mutexes of the C library: the kernel knows one list a thread.
class LivenessMark {
 public:
  LivenessMark() = default;
  LivenessMark(const LivenessMark&) = delete;
  LivenessMark& operator=(const LivenessMark&) = delete;
  // A thread that ends in good order says so itself: its stack may be gone before the kernel looks.
  ~LivenessMark();

  // `word` is in memory that outlives the thread.
  void set(std::atomic<uint32_t>& word);

 private:
  std::atomic<uint32_t>* word_ = nullptr;
  robust_list_head head_{};
  robust_list node_{};
};

// Returns once some thread has set its mark.
void wait_until_alive(const std::atomic<uint32_t>& word);

}  // namespace verbatim::engine
