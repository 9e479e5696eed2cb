#include "local/peer.h"

#include <cstring>

#include "base/event_counter.h"
#include "proto/work.h"

namespace verbatim::local {
namespace {

// A process may have refused our operations before we read who it is: what its ring still holds is news.
uint64_t oldest_notice(const SegmentView& view) {
  const uint64_t count = view.notice_count();
  return count > kNoticeEntries ? count - kNoticeEntries : 0;
}

}  // namespace

Peer::Peer(const SegmentView& own, Incarnation incarnation, int doorbell_fd)
    : self_(true),
      own_(&own),
      incarnation_(incarnation),
      pid_(getpid()),
      doorbell_fd_(doorbell_fd),
      memory_(pid_),
      notices_seen_(oldest_notice(own)) {}

Peer::Peer(SegmentView view, Incarnation incarnation, pid_t pid, FileDescriptor doorbell)
    : self_(false),
      foreign_(std::move(view)),
      incarnation_(incarnation),
      pid_(pid),
      owned_doorbell_(std::move(doorbell)),
      doorbell_fd_(owned_doorbell_.get()),
      memory_(pid_),
      image_(pid_),
      notices_seen_(oldest_notice(*foreign_)) {}

void Peer::ring() const { add_to_eventfd(doorbell_fd_); }

void Peer::wake() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with Engine::patience
  if (!view().awake()) ring();
}

std::shared_ptr<const PeerMapping> Peer::mapping(const RegionFields& region) {
  if (self_ || region.backing_fd < 0) return nullptr;
  std::lock_guard lock(mutex_);
  if (auto found = mapped_.find(region.key.value);
      found != mapped_.end() && std::memcmp(&found->second.region, &region, sizeof region) == 0)
    return found->second.mapping;
  if (mapped_.size() >= sweep_at_) forget_withdrawn();
  const bool writable = region.access & (access::kRemoteWrite | access::kRemoteAtomic);
  Result<PeerMapping> opened = PeerMapping::open(pid_, region.backing_fd, region.backing_device, region.backing_inode,
                                                 region.backing_offset, region.length, writable);
  std::shared_ptr<const PeerMapping> mapping;
  if (opened.ok()) mapping = std::make_shared<const PeerMapping>(opened.take());
  mapped_[region.key.value] = {region, mapping};
  return mapping;
}

void Peer::forget_withdrawn() {
  std::erase_if(mapped_, [&](const auto& item) {
    RegionFields now;
    return !view().read(MemoryKey{item.first}, now) || std::memcmp(&now, &item.second.region, sizeof now) != 0;
  });
  sweep_at_ = std::max<size_t>(64, 2 * mapped_.size());
}

}  // namespace verbatim::local
