#include "local/touch_record.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

namespace verbatim::local {
namespace {

uint64_t pack(TouchTarget target) { return uint64_t{target.qpn.value} << 32 | target.region_entry; }

TouchTarget unpack(uint64_t packed) {
  return {Qpn{static_cast<uint32_t>(packed >> 32)}, static_cast<uint32_t>(packed)};
}

std::optional<OngoingTouch> ongoing_touch(const TouchRecord& record, const std::function<bool(TouchTarget)>& matches) {
  const uint64_t word = record.word.load(std::memory_order_acquire);  // pairs with Guard
  if (!(word & 1)) return std::nullopt;
  // pairs with Guard: who sees a later touch's target here also sees below that the record has moved on
  const TouchTarget target = unpack(record.target.load(std::memory_order_acquire));
  // A record that moves on between the two loads began anew after R2, and will see the withdrawn entry.
  const OngoingTouch touch(record, word);
  if (touch.has_moved_on() || !matches(target)) return std::nullopt;
  return touch;
}

}  // namespace

TouchRecords::Guard::Guard(TouchRecords& records, uint32_t hint, TouchTarget target, bool light) : records_(records) {
  index_ = hint % kTouchRecords;
  // pairs with the release in ~Guard
  while (records_.claimed_[index_].exchange(true, std::memory_order_acquire)) index_ = (index_ + 1) % kTouchRecords;
  TouchRecord& record = records_.records_[index_];
  word_ = record.word.load(std::memory_order_relaxed) + 1;
  record.target.store(pack(target), std::memory_order_release);  // pairs with ongoing_touch
  record.word.store(word_, std::memory_order_release);           // pairs with ongoing_touch
  if (light)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with heavy_fence
}

TouchRecords::Guard::~Guard() {
  records_.records_[index_].word.store(word_ + 1, std::memory_order_release);  // pairs with has_moved_on
  records_.claimed_[index_].store(false, std::memory_order_release);           // pairs with the exchange in Guard
}

std::vector<OngoingTouch> ongoing_touches(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches) {
  std::vector<OngoingTouch> ongoing;
  for (uint32_t i = 0; i < kTouchRecords; ++i)
    if (const auto touch = ongoing_touch(records[i], matches)) ongoing.push_back(*touch);
  return ongoing;
}

void wait_for_touches(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches,
                      const std::function<bool()>& give_up) {
  for (uint32_t i = 0; i < kTouchRecords; ++i) {
    const auto touch = ongoing_touch(records[i], matches);
    while (touch && !touch->has_moved_on()) {
      if (give_up()) return;
      sched_yield();
    }
  }
}

bool register_membarrier() {
  // A sandbox may let the one through and not the other; peers leave out their fence when this is true.
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void heavy_fence(bool by_membarrier) {
  if (by_membarrier && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the full fence in Guard
}

}  // namespace verbatim::local
