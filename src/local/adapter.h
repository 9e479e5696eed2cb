// This process's side of the same-host path: it owns the segment that peers read, gives out queue pair numbers and
// memory keys, and publishes and withdraws what they name. One per process; tests make several. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/types.h"
#include "local/segment_view.h"
#include "local/touch_record.h"

namespace verbatim::local {

class Adapter {
 public:
  // Called when another slot is needed, by one thread at a time: claims one for this process. It may not allocate queue
  // pair numbers itself.
  using ClaimSlot = std::function<Result<Slot>()>;

  // Fails with the errno of memfd_create, ftruncate or mmap.
  static Result<std::unique_ptr<Adapter>> create(ClaimSlot claim_slot);
  ~Adapter();

  Incarnation incarnation() const { return incarnation_; }
  // Borrowed; read-only for whoever else maps it (F_SEAL_FUTURE_WRITE).
  int segment_fd() const { return segment_fd_.get(); }
  // Peers write it (8 bytes) to have this process look at their notices; non-blocking. Borrowed.
  int doorbell_fd() const { return doorbell_.get(); }
  const SegmentView& view() const { return view_; }
  std::vector<Slot> slots() const;
  bool owns(Slot slot) const { return entry_base(slot) != nullptr; }
  // For the robust futex of the thread whose end is the process's end.
  std::atomic<uint32_t>& liveness_word() { return segment_->header.liveness; }
  TouchRecords& touch_records() { return touch_records_; }

  // ENOSPC when all are in use; the errno of ClaimSlot.
  Result<Qpn> allocate_qpn();
  // Forgets the queue pair and its attachments; its number is used again as late as possible.
  void release_qpn(Qpn qpn);
  // Makes `fields` what peers see of fields.qpn. Says nothing of operations already under way: see Revocation.
  void publish(const QueuePairFields& fields);

  // Draws a key, publishes the region under it (fields.key is filled in) and returns it. ENOMEM when all are in use.
  Result<MemoryKey> publish_region(RegionFields fields);
  // Replaces what peers see under a key that publish_region() gave out. fields.key may differ from it in its low 8 bits
  // and is then the only one that names the entry.
  void change_region(const RegionFields& fields);
  // Withdraws the region; the key is free again. Says nothing of operations already under way: see Revocation.
  void withdraw_region(MemoryKey key);

  // Shows peers that the queue pair receives what is sent to the group. Nothing to do when it does already. ENOMEM when
  // all entries are in use.
  Status attach(Qpn qpn, const Gid& group);
  // EINVAL when it is not attached.
  Status detach(Qpn qpn, const Gid& group);
  bool is_attached(Qpn qpn) const;

  // Keeps a lane (lane_layout.h) for messages to that process; nothing when all are in use. It is as if never used.
  std::optional<uint32_t> claim_lane(Incarnation reader);
  void release_lane(uint32_t index);
  // How many were released ever.
  uint64_t freed_lanes() const { return freed_lanes_.load(std::memory_order_acquire); }  // pairs with release_lane
  Lane& lane(uint32_t index) { return segment_->lanes[index]; }

  // Where the receives posted to a queue pair are counted for its peers, and its number there.
  ReceiveCount& receive_count(uint32_t index) { return segment_->receive_counts[index]; }
  uint32_t receive_count_of(Qpn qpn) const;
  // A number for a shared receive queue, counted at kQueuePairEntries + number. ENOSPC when all are in use.
  Result<uint32_t> claim_shared_receives();
  void release_shared_receives(uint32_t number);

  // What peers look at before they ring the doorbell (SegmentHeader::awake).
  std::atomic<uint32_t>& awake_word() { return segment_->header.awake; }

  // Leaves a notice for the peer that owns `notice.target`; the caller rings that peer's doorbell.
  void leave_notice(const NoticeFields& notice);

  // In the child of a fork: closes what it shares with its parent, and puts memory of its own where the parent's
  // segment was, so that what it still does with old objects reaches nobody.
  void abandon();

 private:
  using Attachments = std::map<std::pair<Qpn, Gid>, uint32_t>;  // to the entry's index

  Adapter(ClaimSlot claim_slot, FileDescriptor segment_fd, FileDescriptor doorbell, Segment* segment);
  // The first queue pair entry of a slot of ours, or null.
  QueuePairEntry* entry_base(Slot slot) const;
  std::optional<Qpn> take_free_qpn();
  // With mutex_ held; returns the next.
  Attachments::iterator withdraw_attachment(Attachments::iterator item);
  // With growth_mutex_ held.
  Status add_slot();

  const Incarnation incarnation_;
  ClaimSlot claim_slot_;
  FileDescriptor segment_fd_;
  FileDescriptor doorbell_;
  Segment* segment_;
  SegmentView view_;
  TouchRecords touch_records_;

  std::atomic<uint64_t> freed_lanes_{0};
  std::mutex growth_mutex_;   // held while a slot is claimed; taken before mutex_
  mutable std::mutex mutex_;  // guards what follows, and is the single writer of the entries
  std::deque<Qpn> free_qpns_;
  std::unordered_map<uint32_t, MemoryKey> regions_;  // by entry index
  Attachments attachments_;
  std::vector<bool> attachment_used_;  // by entry index, as far as ever used
  std::deque<uint32_t> free_shared_receives_;
  uint32_t next_shared_receives_ = 1;  // 0 names none
};

}  // namespace verbatim::local
