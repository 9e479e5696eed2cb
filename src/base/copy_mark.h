// Tells a process from the copies that fork(2) and clone(2) make of it, those too that no pthread_atfork(3) handler
// hears of. The kernel empties the mark in a copy (madvise(2), MADV_WIPEONFORK). Where it cannot, no process is a copy.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace verbatim {

class CopyMark {
 public:
  // Of this process.
  CopyMark() {
    void* const memory = mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    mark_ = static_cast<bool*>(memory);
    *mark_ = true;
    if (madvise(memory, kLength, MADV_WIPEONFORK) == 0) return;
    munmap(memory, kLength);
    mark_ = nullptr;
  }
  CopyMark(const CopyMark&) = delete;
  CopyMark& operator=(const CopyMark&) = delete;
  ~CopyMark() {
    if (mark_) munmap(mark_, kLength);
  }

  // Whether this process is a copy of the one that made the mark.
  bool is_copy() const { return mark_ && !*mark_; }

 private:
  static constexpr size_t kLength = 4096;
  bool* mark_ = nullptr;
};

}  // namespace verbatim
