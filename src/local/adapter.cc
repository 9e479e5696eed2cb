#include "local/adapter.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/random.h"

namespace verbatim::local {
namespace {

Incarnation draw_incarnation() {
  uint64_t value;
  do value = random_u64();
  while (value == 0);
  return {value};
}

// Regions are drawn from the lowest entries that leave three of four free, so that few regions touch few pages.
uint32_t entry_window(size_t regions_in_use) {
  uint32_t window = 1024;
  while (window < kRegionEntries && window < 4 * (regions_in_use + 1)) window *= 2;
  return window;
}

// Growing a file beyond the limit would end the program by a signal.
bool may_grow_files_to(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

}  // namespace

Result<std::unique_ptr<Adapter>> Adapter::create(ClaimSlot claim_slot) {
  if (!may_grow_files_to(sizeof(Segment))) return Status{EFBIG};
  FileDescriptor fd(memfd_create("verbatim-adapter", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status{errno};
  if (ftruncate(fd.get(), sizeof(Segment)) != 0) return Status{errno};
  FileDescriptor doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell.valid()) return Status{errno};
  void* memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (memory == MAP_FAILED) return Status{errno};
  // A forked child must not hold our tables, nor write into them.
  madvise(memory, sizeof(Segment), MADV_DONTFORK);
  // Only this mapping may write from here on.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  return std::unique_ptr<Adapter>(
      new Adapter(std::move(claim_slot), std::move(fd), std::move(doorbell), static_cast<Segment*>(memory)));
}

Adapter::Adapter(ClaimSlot claim_slot, FileDescriptor segment_fd, FileDescriptor doorbell, Segment* segment)
    : incarnation_(draw_incarnation()),
      claim_slot_(std::move(claim_slot)),
      segment_fd_(std::move(segment_fd)),
      doorbell_(std::move(doorbell)),
      segment_(segment),
      view_([&] {
        segment->header.version = kSegmentVersion;
        segment->header.entry_mask = static_cast<uint32_t>(random_u64()) & (kRegionEntries - 1);
        segment->header.incarnation = incarnation_.value;
        segment->header.revokes_by_membarrier = register_membarrier();
        segment->header.magic = kSegmentMagic;
        return SegmentView(segment);
      }()),
      touch_records_(segment->touch_records) {}

Adapter::~Adapter() { munmap(segment_, sizeof(Segment)); }

std::vector<Slot> Adapter::slots() const {
  std::vector<Slot> result;
  const uint32_t count = segment_->header.slot_count.load(std::memory_order_acquire);  // pairs with add_slot
  for (uint32_t i = 0; i < count; ++i)
    result.push_back({static_cast<uint16_t>(segment_->header.slots[i].load(std::memory_order_relaxed))});
  return result;
}

Result<Qpn> Adapter::allocate_qpn() {
  for (;;) {
    if (const std::optional<Qpn> qpn = take_free_qpn()) return *qpn;
    std::lock_guard growing(growth_mutex_);
    // What another thread has claimed meanwhile serves both.
    if (const std::optional<Qpn> qpn = take_free_qpn()) return *qpn;
    if (Status status = add_slot(); !status.ok()) return status;
  }
}

std::optional<Qpn> Adapter::take_free_qpn() {
  std::lock_guard lock(mutex_);
  if (free_qpns_.empty()) return std::nullopt;
  const Qpn qpn = free_qpns_.front();
  free_qpns_.pop_front();
  return qpn;
}

Status Adapter::add_slot() {
  if (segment_->header.slot_count.load(std::memory_order_relaxed) == kMaxSlots) return {ENOSPC};
  Result<Slot> slot = claim_slot_();
  if (!slot.ok()) return slot.status();
  std::lock_guard lock(mutex_);
  const uint32_t count = segment_->header.slot_count.load(std::memory_order_relaxed);
  segment_->header.slots[count].store(slot.value().value, std::memory_order_relaxed);
  segment_->header.slot_count.store(count + 1, std::memory_order_release);  // pairs with slots() and SegmentView::read
  const uint32_t first = random_below(Qpn::kPerSlot);
  for (uint32_t i = 0; i < Qpn::kPerSlot; ++i) free_qpns_.push_back(Qpn::of(slot.value(), (first + i) % Qpn::kPerSlot));
  return Status::success();
}

QueuePairEntry* Adapter::entry_base(Slot slot) const {
  const uint32_t count = segment_->header.slot_count.load(std::memory_order_acquire);  // pairs with add_slot
  for (uint32_t i = 0; i < count; ++i)
    if (segment_->header.slots[i].load(std::memory_order_relaxed) == slot.value)
      return &segment_->queue_pairs[i * Qpn::kPerSlot];
  return nullptr;
}

void Adapter::publish(const QueuePairFields& fields) {
  std::lock_guard lock(mutex_);
  // After abandon() no slot is ours any more.
  if (QueuePairEntry* base = entry_base(fields.qpn.slot())) base[fields.qpn.index()].publish(fields);
}

void Adapter::release_qpn(Qpn qpn) {
  std::lock_guard lock(mutex_);
  if (QueuePairEntry* base = entry_base(qpn.slot())) base[qpn.index()].publish({});
  for (auto item = attachments_.lower_bound({qpn, Gid{}}); item != attachments_.end() && item->first.first == qpn;)
    item = withdraw_attachment(item);
  free_qpns_.push_back(qpn);
}

Result<MemoryKey> Adapter::publish_region(RegionFields fields) {
  std::lock_guard lock(mutex_);
  // A part of the table stays empty, so that drawing ends soon and wild keys often name nothing.
  if (regions_.size() >= kMaxRegions) return Status{ENOMEM};
  const uint32_t window = entry_window(regions_.size());
  uint32_t index;
  do index = random_below(window);
  while (regions_.contains(index));
  do {
    const uint32_t random = static_cast<uint32_t>(random_u64());
    const uint32_t high = random & ~(kRegionEntries - 1) & 0xffffff;
    fields.key.value = (high | (index ^ segment_->header.entry_mask)) << 8 | random >> 24;
  } while (fields.key.value == 0);
  regions_.emplace(index, fields.key);
  segment_->regions[index].publish(fields);
  return fields.key;
}

void Adapter::change_region(const RegionFields& fields) {
  std::lock_guard lock(mutex_);
  const uint32_t index = view_.entry_index(fields.key);
  regions_[index] = fields.key;
  segment_->regions[index].publish(fields);
}

void Adapter::withdraw_region(MemoryKey key) {
  std::lock_guard lock(mutex_);
  const uint32_t index = view_.entry_index(key);
  segment_->regions[index].publish({});
  regions_.erase(index);
}

Status Adapter::attach(Qpn qpn, const Gid& group) {
  std::lock_guard lock(mutex_);
  if (attachments_.contains({qpn, group})) return Status::success();
  if (attachments_.size() == kAttachmentEntries) return {ENOMEM};
  const auto free = std::ranges::find(attachment_used_, false);
  const auto index = static_cast<uint32_t>(free - attachment_used_.begin());
  if (free == attachment_used_.end()) attachment_used_.push_back(false);
  attachments_[{qpn, group}] = index;
  attachment_used_[index] = true;
  segment_->attachments[index].publish({group, qpn});
  const auto bound = static_cast<uint32_t>(attachment_used_.size());
  segment_->header.attachment_bound.store(bound, std::memory_order_release);  // pairs with SegmentView::attached_to
  return Status::success();
}

Status Adapter::detach(Qpn qpn, const Gid& group) {
  std::lock_guard lock(mutex_);
  const auto found = attachments_.find({qpn, group});
  if (found == attachments_.end()) return {EINVAL};
  withdraw_attachment(found);
  return Status::success();
}

Adapter::Attachments::iterator Adapter::withdraw_attachment(Attachments::iterator item) {
  segment_->attachments[item->second].publish({});
  attachment_used_[item->second] = false;
  return attachments_.erase(item);
}

bool Adapter::is_attached(Qpn qpn) const {
  std::lock_guard lock(mutex_);
  const auto found = attachments_.lower_bound({qpn, Gid{}});
  return found != attachments_.end() && found->first.first == qpn;
}

std::optional<uint32_t> Adapter::claim_lane(Incarnation reader) {
  std::lock_guard lock(mutex_);
  SegmentHeader& header = segment_->header;
  for (uint32_t index = 0; index < kLanes; ++index) {
    if (header.lane_readers[index].load(std::memory_order_relaxed) != 0) continue;
    Lane& lane = segment_->lanes[index];
    // A lane that was used before still shows the requests to its last reader, and the answers to his.
    const auto forget = [](std::atomic<uint64_t>& sequence) {
      if (sequence.load(std::memory_order_relaxed) != 0) sequence.store(0, std::memory_order_relaxed);
    };
    for (LaneRequest& request : lane.requests) forget(request.sequence);
    for (LaneReply& reply : lane.replies) forget(reply.sequence);
    header.lane_readers[index].store(reader.value, std::memory_order_release);  // pairs with SegmentView::find_lane
    header.lane_changes.fetch_add(1, std::memory_order_release);                // pairs with SegmentView::lane_changes
    return index;
  }
  return std::nullopt;
}

void Adapter::release_lane(uint32_t index) {
  std::lock_guard lock(mutex_);
  segment_->header.lane_readers[index].store(0, std::memory_order_relaxed);
  freed_lanes_.fetch_add(1, std::memory_order_release);  // pairs with freed_lanes
}

uint32_t Adapter::receive_count_of(Qpn qpn) const {
  const QueuePairEntry* base = entry_base(qpn.slot());
  return base ? static_cast<uint32_t>(base - segment_->queue_pairs) + qpn.index() : 0;
}

Result<uint32_t> Adapter::claim_shared_receives() {
  std::lock_guard lock(mutex_);
  if (next_shared_receives_ < kSharedReceiveEntries) return next_shared_receives_++;
  if (free_shared_receives_.empty()) return Status{ENOSPC};
  const uint32_t number = free_shared_receives_.front();
  free_shared_receives_.pop_front();
  return number;
}

void Adapter::release_shared_receives(uint32_t number) {
  std::lock_guard lock(mutex_);
  ReceiveCount& count = segment_->receive_counts[kQueuePairEntries + number];
  count.pd.store(0, std::memory_order_relaxed);
  count.publish(0, 0);
  free_shared_receives_.push_back(number);
}

void Adapter::leave_notice(const NoticeFields& notice) {
  std::lock_guard lock(mutex_);
  const uint64_t number = segment_->header.notice_count.load(std::memory_order_relaxed);
  segment_->notices[number % kNoticeEntries].publish(notice);
  segment_->header.notice_count.store(number + 1, std::memory_order_release);  // pairs with SegmentView::notice_count
}

void Adapter::abandon() {
  segment_fd_.reset();
  doorbell_.reset();
  mmap(segment_, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

}  // namespace verbatim::local
