// What a process shows its peers, byte by byte: one memfd that its owner writes and others can only read. Everything
// here may be read by a process that trusts nothing in it. The memory starts as zeros and is sparse: only pages that
// were written exist.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/published.h"
#include "base/types.h"
#include "local/lane_layout.h"

namespace verbatim::local {

inline constexpr uint64_t kSegmentMagic = 0x314d495441425256;  // "VRBATIM1", little-endian
inline constexpr uint32_t kSegmentVersion = 6;

inline constexpr uint32_t kMaxSlots = 16;
inline constexpr uint32_t kQueuePairEntries = kMaxSlots * Qpn::kPerSlot;
inline constexpr uint32_t kSharedReceiveEntries = 65536;
inline constexpr uint32_t kRegionBits = 20;
inline constexpr uint32_t kRegionEntries = 1u << kRegionBits;
// How many regions and windows an adapter publishes at most.
inline constexpr uint32_t kMaxRegions = kRegionEntries / 4 * 3;
inline constexpr uint32_t kTouchRecords = 256;
inline constexpr uint32_t kNoticeEntries = 4096;
inline constexpr uint32_t kAttachmentEntries = 4096;

enum class RegionKind : uint32_t {
  region = 0,
  // A memory window: its key is for peers only. One that is not bound grants nothing.
  window = 1,
  // Memory that reads as zeros and forgets what is written; its key is for the owner's own SGEs only.
  null = 2,
};

// A memory region or window as its owner's peers see it. Addresses are the owner's; lengths in bytes.
struct RegionFields {
  MemoryKey key;  // 0: no region
  PdId pd;
  uint32_t access = 0;
  // Where the file behind the region is to be found, when it is one: an fd of the owner, or -1.
  int32_t backing_fd = -1;
  uint64_t iova = 0;
  uint64_t length = 0;
  uint64_t address = 0;
  uint64_t backing_device = 0;
  uint64_t backing_inode = 0;
  uint64_t backing_offset = 0;
  RegionKind kind = RegionKind::region;
  // A type 2 window is good only through the queue pair that bound it; 0: through every one of the PD.
  Qpn queue_pair;
};

struct QueuePairFields {
  Qpn qpn;  // 0: no queue pair
  uint32_t state = 0;
  uint32_t access = 0;
  PdId pd;
  Qpn peer;
  uint32_t responder_depth = 0;  // max_dest_rd_atomic
  uint32_t type = 0;             // QueuePairType
  uint32_t min_rnr_timer = 0;    // as IBTA encodes it
  uint32_t receive_count = 0;    // which of Segment::receive_counts is its
  uint32_t stream = 0;           // drawn anew at each reset: messages of another are of the time before
  Gid own_gid;
  Gid peer_gid;
};

struct alignas(64) RegionEntry : Published<RegionFields> {};
struct alignas(64) QueuePairEntry : Published<QueuePairFields> {};

// How many receives were ever posted to a queue (high 32 bits) and taken from it (low), both modulo 2^32; a reset takes
// what is left. First those of the queue pairs, by entry, then those of the shared receive queues, by number. Those
// taken from a queue pair's own are not counted here: its only sender knows, and has not to fetch what says so.
struct alignas(64) ReceiveCount {
  std::atomic<uint64_t> word;
  std::atomic<uint32_t> pd;  // a shared receive queue's PdId; 0: there is none
  uint32_t posted() const { return static_cast<uint32_t>(word.load(std::memory_order_acquire) >> 32); }
  uint32_t available() const {
    const uint64_t both = word.load(std::memory_order_acquire);  // pairs with publish()
    return static_cast<uint32_t>(both >> 32) - static_cast<uint32_t>(both);
  }
  void publish(uint64_t posted, uint64_t consumed) {
    word.store(posted << 32 | (consumed & 0xffffffff), std::memory_order_release);  // pairs with posted(), available()
  }
};

// What one of the owner's threads is touching right now in some peer's memory. See touch_record.h.
struct alignas(64) TouchRecord {
  std::atomic<uint64_t> word;    // sequence << 1 | active
  std::atomic<uint64_t> target;  // target QPN << 32 | region entry
  std::atomic<uint64_t> actor;   // in a system call << 32 | the thread that turns back when interrupted, or 0
};

// "I, the requester, refused an operation of mine because of your tables": what a NIC's responder would have noticed
// itself. `kind` is a NoticeKind, `stream` the target's (QueuePairFields) at that time: one that was reset since is
// concerned no more.
struct NoticeFields {
  Qpn target;
  Qpn source;
  uint32_t kind = 0;
  uint32_t stream = 0;
};
struct NoticeEntry : Published<NoticeFields> {};

enum class NoticeKind : uint32_t { access_error = 1, invalid_request = 2, operation_error = 3 };

// A queue pair of the owner's that receives what is sent to a multicast group.
struct AttachmentFields {
  Gid group;
  Qpn qpn;  // 0: none
  uint32_t reserved = 0;
};
struct AttachmentEntry : Published<AttachmentFields> {};

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  // Entry of a key: (key >> 8 ^ entry_mask) & (kRegionEntries - 1).
  uint32_t entry_mask;
  uint64_t incarnation;
  // Whether the owner's revocations interrupt its peers by membarrier(2), so that they need no fence of their own.
  uint32_t revokes_by_membarrier;
  // The engine thread's id while the process lives; the kernel sets FUTEX_OWNER_DIED in it when that thread ends for
  // any reason (a robust futex). 0 before the engine runs.
  std::atomic<uint32_t> liveness;
  // Not 0 while the owner looks for messages and notices by itself, within a millisecond; else its doorbell wakes it.
  std::atomic<uint32_t> awake;
  std::atomic<uint32_t> slot_count;
  std::array<std::atomic<uint32_t>, kMaxSlots> slots;
  // Attachments at this index and beyond were never used.
  std::atomic<uint32_t> attachment_bound;
  // How many notices were ever written; notice n is in notices[n % kNoticeEntries].
  alignas(64) std::atomic<uint64_t> notice_count;
  // Counts the changes of lane_readers.
  alignas(64) std::atomic<uint64_t> lane_changes;
  // The incarnation of the process that lane n is for; 0: nobody's.
  std::array<std::atomic<uint64_t>, kLanes> lane_readers;
};

struct Segment {
  SegmentHeader header;
  alignas(4096) TouchRecord touch_records[kTouchRecords];
  alignas(4096) NoticeEntry notices[kNoticeEntries];
  alignas(4096) AttachmentEntry attachments[kAttachmentEntries];
  alignas(4096) QueuePairEntry queue_pairs[kQueuePairEntries];
  alignas(4096) RegionEntry regions[kRegionEntries];
  alignas(4096) ReceiveCount receive_counts[kQueuePairEntries + kSharedReceiveEntries];
  alignas(4096) Lane lanes[kLanes];
};

inline uint32_t region_entry_index(MemoryKey key, uint32_t entry_mask) {
  return ((key.value >> 8) ^ entry_mask) & (kRegionEntries - 1);
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(QueuePairEntry) == 128);
static_assert(sizeof(RegionEntry) == 128);

}  // namespace verbatim::local
