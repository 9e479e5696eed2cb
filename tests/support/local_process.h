// One "process" of the same-host path: an adapter, and a table of peers that the test introduces it to. Several of them
// live in the test's process; process_vm and /proc reach them under its own pid. Test code only.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "local/adapter.h"
#include "local/lanes.h"
#include "local/peer_table.h"
#include "proto/work.h"

namespace verbatim::testing_support {

// The memory a view looks at: a second view of it makes two ends over one mapping, which ThreadSanitizer understands.
inline const local::Segment* segment_of(const local::SegmentView& view) {
  const auto* records = reinterpret_cast<const char*>(view.touch_records());
  return reinterpret_cast<const local::Segment*>(records - offsetof(local::Segment, touch_records));
}

class LocalProcess final : public local::PeerTable::Introducer {
 public:
  // Claims the slots first_slot, first_slot + 1, …
  explicit LocalProcess(uint16_t first_slot)
      : adapter_(local::Adapter::create([this] { return claim_slot(); }).take()),
        next_slot_(first_slot),
        peers_(
            std::make_shared<local::Peer>(adapter_->view(), adapter_->incarnation(), adapter_->doorbell_fd()),
            [this](Slot slot) { return adapter_->owns(slot); }, *this) {}

  // Its death is made known to those who met it, whose views look at its memory.
  ~LocalProcess() override {
    for (LocalProcess* other : met_by_) {
      other->peers_.remove(adapter_->incarnation());
      std::erase(other->met_, this);
    }
    for (const LocalProcess* other : met_) std::erase(other->met_by_, this);
  }
  LocalProcess(const LocalProcess&) = delete;

  local::Adapter& adapter() { return *adapter_; }
  local::PeerTable& peers() { return peers_; }
  local::Lanes& lanes() { return lanes_; }

  // This process as another one sees it, over the same mapping.
  std::shared_ptr<local::Peer> as_peer() const {
    return std::make_shared<local::Peer>(local::SegmentView(segment_of(adapter_->view())), adapter_->incarnation(),
                                         getpid(), FileDescriptor(dup(adapter_->doorbell_fd())));
  }
  // The same over a mapping of its own, as after a real introduction.
  std::shared_ptr<local::Peer> as_peer_elsewhere() const {
    return std::make_shared<local::Peer>(
        local::SegmentView::map(adapter_->segment_fd(), adapter_->incarnation()).take(), adapter_->incarnation(),
        getpid(), FileDescriptor(dup(adapter_->doorbell_fd())));
  }
  // One direction of an introduction; for one thread at a time.
  void meet(const LocalProcess& other) {
    peers_.add(other.as_peer(), other.adapter_->slots());
    if (std::find(met_.begin(), met_.end(), &other) != met_.end()) return;
    met_.push_back(&other);
    other.met_by_.push_back(this);
  }

  Qpn allocate_qpn() { return adapter_->allocate_qpn().take(); }

  int claims() const {
    std::lock_guard lock(mutex_);
    return claims_;
  }
  int refreshes() const {
    std::lock_guard lock(mutex_);
    return refreshes_;
  }
  std::vector<Slot> wishes() const {
    std::lock_guard lock(mutex_);
    return wishes_;
  }
  // What introduce() and the claiming of slots answer from now on.
  void answer_introductions(Status status) {
    std::lock_guard lock(mutex_);
    introduction_ = status;
  }
  void answer_claims(Status status) {
    std::lock_guard lock(mutex_);
    claiming_ = status;
  }
  // Done by the next refresh(), as if that news had lain in the agent's socket.
  void arrives_late(const LocalProcess& other) {
    std::lock_guard lock(mutex_);
    late_ = &other;
  }

  void refresh() override {
    const LocalProcess* other = nullptr;
    {
      std::lock_guard lock(mutex_);
      other = std::exchange(late_, nullptr);
      ++refreshes_;
    }
    if (other) meet(*other);
  }
  Status introduce(Slot slot) override {
    std::lock_guard lock(mutex_);
    wishes_.push_back(slot);
    if (introduction_.ok() && answers_) peers_.nobody_owns(slot);
    return introduction_;
  }
  // Whether introduce() is answered at once that nobody owns the slot: the agent does so unless it hardly runs.
  void answer(bool answers) {
    std::lock_guard lock(mutex_);
    answers_ = answers;
  }
  Status appear() override {
    std::lock_guard lock(mutex_);
    ++appearances_;
    return introduction_;
  }
  int appearances() const {
    std::lock_guard lock(mutex_);
    return appearances_;
  }
  // Whom it meets is the test's affair.
  Status introduce_everyone() override {
    std::lock_guard lock(mutex_);
    wishes_everyone_ = true;
    if (introduction_.ok() && answers_) peers_.everyone_is_known();
    return introduction_;
  }
  bool wishes_everyone() const {
    std::lock_guard lock(mutex_);
    return wishes_everyone_;
  }

 private:
  Result<Slot> claim_slot() {
    std::lock_guard lock(mutex_);
    ++claims_;
    if (!claiming_.ok()) return claiming_;
    return Slot{next_slot_++};
  }

  mutable std::mutex mutex_;
  int claims_ = 0;
  int appearances_ = 0;
  int refreshes_ = 0;
  std::vector<Slot> wishes_;
  bool wishes_everyone_ = false;
  Status introduction_;
  bool answers_ = true;
  Status claiming_;
  const LocalProcess* late_ = nullptr;
  std::vector<const LocalProcess*> met_;
  mutable std::vector<LocalProcess*> met_by_;
  std::unique_ptr<local::Adapter> adapter_;
  uint16_t next_slot_;
  local::PeerTable peers_;
  local::Lanes lanes_{*adapter_, peers_};
};

inline void introduce(LocalProcess& a, LocalProcess& b) {
  a.meet(b);
  b.meet(a);
}

}  // namespace verbatim::testing_support
