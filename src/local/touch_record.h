// How nothing lands after a revocation has returned, without a lock that a dead process could hold.
//
//   requester                                   revoker (owner of the target)
//   T1 record := active, target                 R1 withdraw the entry (Published::publish)
//   T2 fence (light)                            R2 fence (heavy: membarrier on every peer)
//   T3 read the target's entries, check         R3 scan all records; wait while one is active
//   T4 copy one slice                              on the withdrawn target
//   T5 record := inactive
//
// Either T3 sees R1 and the requester refuses, or R3 sees T1 and the revoker waits. Records are in the requester's
// segment, so the revoker only reads them. A slice is at most kSliceBytes, so the wait is short.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "local/segment_layout.h"

namespace verbatim::local {

// What a record may name; a revoker waits for records that match either part.
struct TouchTarget {
  Qpn qpn;
  uint32_t region_entry = kNoRegion;
  static constexpr uint32_t kNoRegion = 0xffffffff;
};

// The requester's records of one adapter. Thread-safe.
class TouchRecords {
 public:
  explicit TouchRecords(TouchRecord* records) : records_(records) {}

  // T1 and T2, and T5 when it goes out of scope. `hint` spreads users over the records (a queue pair's index).
  // `light` says that the revoker runs the heavy fence; otherwise this side pays for a full one.
  class Guard {
   public:
    Guard(TouchRecords& records, uint32_t hint, TouchTarget target, bool light);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    TouchRecords& records_;
    uint32_t index_;
    uint64_t word_;
  };

 private:
  TouchRecord* records_;
  // Process-private: which records have a user. Only flags, so a thread spins at most for another one's slice.
  std::array<std::atomic<bool>, kTouchRecords> claimed_{};
};

// A record that was active when R3 looked at it.
class OngoingTouch {
 public:
  OngoingTouch(const TouchRecord& record, uint64_t word) : record_(&record), word_(word) {}
  bool has_moved_on() const { return record_->word.load(std::memory_order_acquire) != word_; }  // pairs with ~Guard

 private:
  const TouchRecord* record_;
  uint64_t word_;
};

// R3's scan of one segment's records: those that are active on a target that `matches` it.
std::vector<OngoingTouch> ongoing_touches(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches);

// R3 for one segment's records: waits until every record that was active on a matching target has moved on.
// `matches` judges a target; `give_up` is asked between looks and ends the wait (the peer died); both on this thread.
void wait_for_touches(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches,
                      const std::function<bool()>& give_up);

// R2. True when this process may use membarrier: registered once, before the first segment is made.
bool register_membarrier();
void heavy_fence(bool by_membarrier);

}  // namespace verbatim::local
