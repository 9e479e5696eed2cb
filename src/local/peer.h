// Another process of this host (or this one itself, as its own peer): its segment, its doorbell, and the ways into its
// memory. Made at an introduction, kept alive by the endpoints that use it, beyond the peer's death. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/file_descriptor.h"
#include "base/types.h"
#include "local/backing.h"
#include "local/process_image.h"
#include "local/process_memory.h"
#include "local/segment_view.h"

namespace verbatim::local {

class Peer {
 public:
  // This process as its own peer; `own` outlives it.
  Peer(const SegmentView& own, Incarnation incarnation, int doorbell_fd);
  Peer(SegmentView view, Incarnation incarnation, pid_t pid, FileDescriptor doorbell);

  Incarnation incarnation() const { return incarnation_; }
  pid_t pid() const { return pid_; }
  bool is_self() const { return self_; }
  const SegmentView& view() const { return self_ ? *own_ : *foreign_; }

  // Wakes the peer's engine. Never blocks; a doorbell that cannot be rung rings already.
  void ring() const;

  // The same unless the peer will look by itself; called after what it shall find was written.
  void wake() const;

  // As soon as either the agent or the kernel has said so.
  bool dead() const { return dead_.load(std::memory_order_acquire) || (!self_ && view().owner_died()); }
  // Dead, and none of its threads can be in the middle of anything any more: dead() may come while others of them still
  // run. Reads /proc while it is dead and not gone.
  bool gone() const { return dead() && image_.ended(); }
  void mark_dead() { dead_.store(true, std::memory_order_release); }  // pairs with dead()

  const ProcessMemory& memory() const { return memory_; }

  // The peer's region mapped here, or null when it is no file that can be mapped (that answer is remembered too).
  // `region` is what the peer published; a mapping is made anew when it differs from last time's.
  std::shared_ptr<const PeerMapping> mapping(const RegionFields& region);

  // Notices in this peer's segment that were not settled yet are handed to `judge`, oldest first, until it returns
  // false: that one comes again next time. One thread at a time. Returns how many were overwritten before they could be
  // read.
  template <class Judge>
  uint64_t drain_notices(Judge&& judge);

 private:
  struct Mapped {
    RegionFields region;
    std::shared_ptr<const PeerMapping> mapping;
  };
  void forget_withdrawn();

  const bool self_;
  const SegmentView* own_ = nullptr;
  std::optional<SegmentView> foreign_;
  const Incarnation incarnation_;
  const pid_t pid_;
  FileDescriptor owned_doorbell_;
  const int doorbell_fd_;
  ProcessMemory memory_;
  const ProcessImage image_;
  std::atomic<bool> dead_{false};
  uint64_t notices_seen_;

  std::mutex mutex_;                             // guards what follows
  std::unordered_map<uint32_t, Mapped> mapped_;  // by key
  size_t sweep_at_ = 64;
};

template <class Judge>
uint64_t Peer::drain_notices(Judge&& judge) {
  const uint64_t count = view().notice_count();
  uint64_t lost = 0;
  if (count - notices_seen_ > kNoticeEntries) {
    lost = count - notices_seen_ - kNoticeEntries;
    notices_seen_ += lost;
  }
  for (; notices_seen_ < count; ++notices_seen_) {
    NoticeFields notice;
    if (!view().read_notice(notices_seen_, notice))
      ++lost;
    else if (!judge(notice))
      break;
  }
  return lost;
}

}  // namespace verbatim::local
