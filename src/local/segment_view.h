// A read-only look at a segment: one's own, or a peer's, whose owner may lie, stop or die at any moment. Every read is
// bounded and checked; nothing read here is used as a pointer or index without a check by the reader. Thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "local/segment_layout.h"

namespace verbatim::local {

// An entry of a table as it was read last, for who reads the same one again and again. Good for one view.
template <class Fields>
struct Known {
  Fields fields;
  uint32_t entry = 0;
  uint64_t sequence = Published<Fields>::kUnseen;

  // Whether both say the same.
  bool is_as(const Known& other) const { return entry == other.entry && sequence == other.sequence; }
};
using KnownQueuePair = Known<QueuePairFields>;
using KnownRegion = Known<RegionFields>;

class SegmentView {
 public:
  // Over memory that someone else keeps mapped.
  explicit SegmentView(const Segment* segment) : segment_(segment) {}
  // Maps a peer's segment. EPROTO when it is not one (size, seals, magic, version) or its incarnation differs.
  static Result<SegmentView> map(int fd, Incarnation expected);
  SegmentView(SegmentView&& other) noexcept;
  SegmentView& operator=(SegmentView&&) = delete;
  ~SegmentView();

  // False when there is none, or its owner is in the middle of changing it.
  bool read(Qpn qpn, QueuePairFields& out) const;
  // False when the key names nothing, or its owner is in the middle of changing it.
  bool read(MemoryKey key, RegionFields& out) const;
  // The same, without a copy of what has not changed since it was last read into `known`.
  bool refresh(Qpn qpn, KnownQueuePair& known) const;
  bool refresh(MemoryKey key, KnownRegion& known) const;
  // Whether the entry has not changed since it was read into `known`. A load.
  bool is_still(const KnownQueuePair& known) const {
    return segment_->queue_pairs[known.entry].is_still(known.sequence);
  }
  bool is_still(const KnownRegion& known) const { return segment_->regions[known.entry].is_still(known.sequence); }
  uint32_t entry_index(MemoryKey key) const { return region_entry_index(key, entry_mask_); }

  bool revokes_by_membarrier() const { return revokes_by_membarrier_; }
  const TouchRecord* touch_records() const { return segment_->touch_records; }
  // The owner's queue pairs that are attached to the group. Those being attached or detached at this instant may be
  // missing.
  std::vector<Qpn> attached_to(const Gid& group) const;
  uint64_t notice_count() const;
  bool read_notice(uint64_t number, NoticeFields& out) const;
  // The owner's lane for that reader, or null.
  const Lane* find_lane(Incarnation reader) const;
  // Changes whenever an answer of find_lane may have.
  uint64_t lane_changes() const;
  // Null beyond the last.
  const ReceiveCount* receive_count(uint32_t index) const;
  // The owner looks at lanes and notices by itself.
  bool awake() const;
  // The kernel says that the owner has ended (see SegmentHeader::liveness).
  bool owner_died() const;

 private:
  // Where the queue pair would be, by the slots that the owner shows.
  std::optional<uint32_t> entry_index(Qpn qpn) const;

  const Segment* segment_;
  bool mapped_ = false;
  uint32_t entry_mask_ = segment_->header.entry_mask;
  bool revokes_by_membarrier_ = segment_->header.revokes_by_membarrier != 0;
};

}  // namespace verbatim::local
