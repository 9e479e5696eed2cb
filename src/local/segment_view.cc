#include "local/segment_view.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace verbatim::local {

Result<SegmentView> SegmentView::map(int fd, Incarnation expected) {
  struct stat status;
  if (fstat(fd, &status) != 0) return Status{errno};
  const int seals = fcntl(fd, F_GET_SEALS);
  // Without the seals its owner could shrink it under us.
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || status.st_size != sizeof(Segment)) return Status{EPROTO};
  void* memory = mmap(nullptr, sizeof(Segment), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Status{errno};
  SegmentView view(static_cast<const Segment*>(memory));
  view.mapped_ = true;
  madvise(memory, sizeof(Segment), MADV_DONTFORK);
  const SegmentHeader& header = view.segment_->header;
  if (header.magic != kSegmentMagic || header.version != kSegmentVersion || header.incarnation != expected.value)
    return Status{EPROTO};
  return view;
}

SegmentView::SegmentView(SegmentView&& other) noexcept
    : segment_(other.segment_), mapped_(std::exchange(other.mapped_, false)) {}

SegmentView::~SegmentView() {
  if (mapped_) munmap(const_cast<Segment*>(segment_), sizeof(Segment));
}

std::optional<uint32_t> SegmentView::entry_index(Qpn qpn) const {
  const uint32_t count = std::min(segment_->header.slot_count.load(std::memory_order_acquire),  // pairs with add_slot
                                  kMaxSlots);
  for (uint32_t i = 0; i < count; ++i)
    if (segment_->header.slots[i].load(std::memory_order_relaxed) == qpn.slot().value)
      return i * Qpn::kPerSlot + qpn.index();
  return std::nullopt;
}

bool SegmentView::read(Qpn qpn, QueuePairFields& out) const {
  const std::optional<uint32_t> entry = entry_index(qpn);
  return entry && segment_->queue_pairs[*entry].read(out) && out.qpn == qpn;
}

bool SegmentView::read(MemoryKey key, RegionFields& out) const {
  return segment_->regions[entry_index(key)].read(out) && out.key == key && key.value != 0;
}

bool SegmentView::refresh(Qpn qpn, KnownQueuePair& known) const {
  // A slot stays where it was shown first.
  if (known.sequence == QueuePairEntry::kUnseen || known.fields.qpn != qpn) {
    const std::optional<uint32_t> entry = entry_index(qpn);
    if (!entry) return false;
    known.entry = *entry;
    known.sequence = QueuePairEntry::kUnseen;
  }
  return segment_->queue_pairs[known.entry].refresh(known.fields, known.sequence) && known.fields.qpn == qpn;
}

bool SegmentView::refresh(MemoryKey key, KnownRegion& known) const {
  const uint32_t entry = entry_index(key);
  if (known.entry != entry) known = {.fields = {}, .entry = entry};
  return segment_->regions[entry].refresh(known.fields, known.sequence) && known.fields.key == key && key.value != 0;
}

std::vector<Qpn> SegmentView::attached_to(const Gid& group) const {
  const uint32_t bound =
      std::min(segment_->header.attachment_bound.load(std::memory_order_acquire),  // pairs with attach
               kAttachmentEntries);
  std::vector<Qpn> found;
  for (uint32_t i = 0; i < bound; ++i) {
    AttachmentFields fields;
    if (segment_->attachments[i].read(fields) && fields.qpn.value != 0 && fields.group == group)
      found.push_back(fields.qpn);
  }
  return found;
}

uint64_t SegmentView::notice_count() const {
  return segment_->header.notice_count.load(std::memory_order_acquire);  // pairs with Adapter::leave_notice
}

bool SegmentView::read_notice(uint64_t number, NoticeFields& out) const {
  return segment_->notices[number % kNoticeEntries].read(out);
}

const Lane* SegmentView::find_lane(Incarnation reader) const {
  for (uint32_t index = 0; index < kLanes; ++index)
    if (segment_->header.lane_readers[index].load(std::memory_order_acquire) == reader.value)  // pairs with claim_lane
      return &segment_->lanes[index];
  return nullptr;
}

uint64_t SegmentView::lane_changes() const {
  return segment_->header.lane_changes.load(std::memory_order_acquire);  // pairs with Adapter::claim_lane
}

const ReceiveCount* SegmentView::receive_count(uint32_t index) const {
  return index < std::size(segment_->receive_counts) ? &segment_->receive_counts[index] : nullptr;
}

bool SegmentView::awake() const {
  return segment_->header.awake.load(std::memory_order_relaxed) !=
         0;  // pairs with Engine::patience by Peer::wake's fence
}

bool SegmentView::owner_died() const {
  return segment_->header.liveness.load(std::memory_order_relaxed) & FUTEX_OWNER_DIED;
}

}  // namespace verbatim::local
