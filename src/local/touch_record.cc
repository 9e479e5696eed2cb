#include "local/touch_record.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "base/interruption.h"

namespace verbatim::local {
namespace {

constexpr uint64_t kInKernel = uint64_t{1} << 32;

uint64_t draw_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

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

TouchRecords::TouchRecords(TouchRecord* records) : records_(records), id_(draw_id()) {}

uint32_t TouchRecords::this_thread() const {
  struct Known {
    uint64_t of;
    uint32_t thread;
  };
  // A forked child begins with its parent's, but not with its records.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Known known{0, 0};
  if (known.of != id_) [[unlikely]]
    known = {id_, notices_interruption() ? static_cast<uint32_t>(gettid()) : 0};
  return known.thread;
}

uint32_t TouchRecords::claim(uint32_t hint) {
  uint32_t index = hint % kTouchRecords;
  // pairs with ~Guard
  while (claimed_[index].exchange(true, std::memory_order_acquire)) index = (index + 1) % kTouchRecords;
  return index;
}

TouchRecords::Guard::Guard(TouchRecords& records, uint32_t index)
    : record_(records.records_[index]),
      claimed_(records.claimed_[index]),
      word_(record_.word.load(std::memory_order_relaxed) + 1) {}

TouchRecords::Guard::Guard(TouchRecords& records, uint32_t hint, TouchTarget target, bool light,
                           Interrupted interrupted)
    : Guard(records, records.claim(hint)) {
  const uint32_t actor = interrupted == Interrupted::turns_back ? records.this_thread() : 0;
  record_.target.store(pack(target), std::memory_order_release);  // pairs with ongoing_touch
  record_.actor.store(actor, std::memory_order_relaxed);
  record_.word.store(word_, std::memory_order_release);  // pairs with ongoing_touch
  if (light)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with heavy_fence
}

TouchRecords::Guard::~Guard() {
  record_.word.store(word_ + 1, std::memory_order_release);  // pairs with has_moved_on
  claimed_.store(false, std::memory_order_release);          // pairs with claim()
}

void TouchRecords::Guard::enter_kernel() {
  const uint64_t actor = record_.actor.load(std::memory_order_relaxed);
  record_.actor.store(actor | kInKernel, std::memory_order_release);  // pairs with OngoingTouch::actor()
}

OngoingTouch::Actor OngoingTouch::actor() const {
  const uint64_t actor = record_->actor.load(std::memory_order_acquire);  // pairs with enter_kernel()
  return {static_cast<pid_t>(actor & 0xffffffff), (actor & kInKernel) != 0};
}

void for_each_ongoing_touch(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches,
                            const std::function<void(const OngoingTouch&)>& visit) {
  for (uint32_t i = 0; i < kTouchRecords; ++i)
    if (const auto touch = ongoing_touch(records[i], matches)) visit(*touch);
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
