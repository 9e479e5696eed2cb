// A shared receive queue (ibv_create_srq(3), ibv_create_srq_ex(3)): receives that the messages of many queue pairs
// take, oldest first. An XRC one is named by its number, and completes to a CQ of its own. Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "base/spin_lock.h"
#include "local/own_memory.h"
#include "model/async_events.h"
#include "model/device.h"
#include "model/protection_domain.h"
#include "model/receive_queue.h"

namespace verbatim::model {

class CompletionQueue;
class XrcDomain;

// A receive that a message has taken: no longer the queue's.
struct TakenReceive {
  uint64_t work_id = 0;
  std::array<Sge, local::kMaxSges> sges;
  uint32_t count = 0;
  std::span<const Sge> pieces() const { return {sges.data(), count}; }
};

class SharedReceiveQueue {
 public:
  struct Setup {
    ProtectionDomain& pd;
    uint32_t max_wr = 0;
    uint32_t max_sge = 0;
    uint32_t limit = 0;
    // Both null unless it is for XRC.
    CompletionQueue* cq = nullptr;
    XrcDomain* xrc_domain = nullptr;
    void* handle = nullptr;  // the C object that events name
  };

  // EINVAL: sizes of 0 requests or beyond the device's. ENOMEM: no more of them.
  static Result<std::unique_ptr<SharedReceiveQueue>> create(Device& device, AsyncEvents& events, const Setup& setup);
  // Nobody uses it any more (in_use() is false). Waits until its events are acknowledged.
  ~SharedReceiveQueue();

  // What peers and XRC requests call it; srq_num.
  uint32_t number() const { return number_; }
  uint32_t max_wr() const { return setup_.max_wr; }
  uint32_t max_sge() const { return setup_.max_sge; }
  PdId pd() const { return setup_.pd.id(); }
  CompletionQueue* cq() const { return setup_.cq; }
  const XrcDomain* xrc_domain() const { return setup_.xrc_domain; }
  EventAcknowledgement& acknowledgement() { return acknowledgement_; }
  // Where its receives are counted for peers.
  uint32_t receive_count() const { return local::kQueuePairEntries + number_; }

  // EINVAL: too many SGEs. ENOMEM: it is full.
  Status post(const ReceiveWork& work);
  // The oldest receive; false when there is none. May raise the limit event.
  bool take(TakenReceive& taken);

  // An event when fewer receives than this are left, once; 0 is never. EINVAL: more than the queue holds.
  Status set_limit(uint32_t limit);
  uint32_t limit() const;

  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }  // pairs with remove_user()
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_user() { users_.fetch_sub(1, std::memory_order_release); }

 private:
  SharedReceiveQueue(Device& device, AsyncEvents& events, const Setup& setup, uint32_t number);
  // With mutex_ held.
  void publish();
  void check_limit();

  Device& device_;
  AsyncEvents& events_;
  const Setup setup_;
  const uint32_t number_;
  EventAcknowledgement acknowledgement_;
  std::atomic<int> users_{0};

  mutable SpinLock mutex_;  // guards what follows
  ReceiveQueue receives_;
  uint32_t limit_;
};

}  // namespace verbatim::model
