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
// segment, so the revoker only reads them. A slice is short, and so is the wait.
//
// A requester that is stopped between T3 and T5 would hold the revoker up for as long. So its thread is watched
// (base/interruption.h) from before it looks at the entries a last time until the end of T4: when it goes on after a
// stop, it turns back to T3. The record names it, so that the revoker can see that it is stopped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "local/segment_layout.h"

namespace verbatim::local {

// What a record may name; a revoker waits for records that match either part.
struct TouchTarget {
  Qpn qpn;
  uint32_t region_entry = kNoRegion;
  static constexpr uint32_t kNoRegion = 0xffffffff;
};

// What a thread does that was interrupted in the middle of a touch.
enum class Interrupted { goes_on, turns_back };

// The requester's records of one adapter. Thread-safe.
class TouchRecords {
 public:
  explicit TouchRecords(TouchRecord* records);

  // T1 and T2, and T5 when it goes out of scope. `hint` spreads users over the records (a queue pair's index).
  // `light` says that the revoker runs the heavy fence; otherwise this side pays for a full one.
  class Guard {
   public:
    Guard(TouchRecords& records, uint32_t hint, TouchTarget target, bool light,
          Interrupted interrupted = Interrupted::goes_on);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    // Before a system call touches the target. It may be in the middle of that without running.
    void enter_kernel();

   private:
    TouchRecord& record_;
    std::atomic<bool>& claimed_;
    const uint64_t word_;

    Guard(TouchRecords& records, uint32_t index);
  };

 private:
  // The index of a record that is now this thread's.
  uint32_t claim(uint32_t hint);
  // This thread's number, or 0 if nobody tells it of interruptions.
  uint32_t this_thread() const;

  TouchRecord* records_;
  const uint64_t id_;  // of no other in this process, nor in one that it is forked from
  // Process-private: which records have a user. Only flags, so a thread spins at most for another one's slice.
  std::array<std::atomic<bool>, kTouchRecords> claimed_{};
};

// A record that was active when R3 looked at it.
class OngoingTouch {
 public:
  OngoingTouch(const TouchRecord& record, uint64_t word) : record_(&record), word_(word) {}
  bool has_moved_on() const { return record_->word.load(std::memory_order_acquire) != word_; }  // pairs with ~Guard

  // Who turns back when it goes on after an interruption, and whether a system call of it may be under way; 0: nobody.
  struct Actor {
    pid_t thread;
    bool in_kernel;
  };
  Actor actor() const;

 private:
  const TouchRecord* record_;
  uint64_t word_;
};

// R3's scan of one segment's records: `visit` gets those that are active on a target that `matches`, which it may wait
// for; both on this thread.
void for_each_ongoing_touch(const TouchRecord* records, const std::function<bool(TouchTarget)>& matches,
                            const std::function<void(const OngoingTouch&)>& visit);

// R2. True when this process may use membarrier: registered once, before the first segment is made.
bool register_membarrier();
void heavy_fence(bool by_membarrier);

}  // namespace verbatim::local
