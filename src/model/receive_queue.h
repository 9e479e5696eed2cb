// The receive queue's memory: a ring of the receives that wait for a message, oldest first. Room is free again when
// the caller has taken a receive's completion. One thread at a time posts (full, push) and one takes (empty, head,
// pop), which may be another; retire() may be called by any, clear() while there is none.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>

#include "base/ring_places.h"
#include "proto/work.h"

namespace verbatim::model {

struct ReceiveWork {
  uint64_t work_id = 0;
  std::span<const Sge> sges;
};

// How many bytes it takes.
inline uint64_t capacity(const ReceiveWork& work) {
  uint64_t bytes = 0;
  for (const Sge& sge : work.sges) bytes += sge.length;
  return bytes;
}

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t requests, uint32_t sges)
      : requests_(requests),
        sges_per_request_(sges),
        places_(requests),
        works_(std::make_unique<ReceiveWork[]>(places_.count())),
        sges_(std::make_unique_for_overwrite<Sge[]>(places_.count() * std::max(sges, 1u))) {}

  bool full() const { return posted() - retired_.load(std::memory_order_acquire) >= requests_; }  // pairs with retire()
  bool empty() const { return waiting() == 0; }
  // For who takes.
  uint64_t waiting() const { return posted() - consumed_; }
  uint64_t posted() const { return posted_.load(std::memory_order_acquire); }  // pairs with push()
  uint64_t consumed() const { return consumed_; }

  // Copies the request and its SGEs; the caller has checked their number and full().
  void push(const ReceiveWork& work) {
    const uint64_t number = posted_.load(std::memory_order_relaxed);
    const size_t index = places_.of(number);
    Sge* const sges = &sges_[index * std::max(sges_per_request_, 1u)];
    std::copy(work.sges.begin(), work.sges.end(), sges);
    works_[index] = {work.work_id, {sges, work.sges.size()}};
    posted_.store(number + 1, std::memory_order_release);  // pairs with posted()
  }

  const ReceiveWork& head() const { return works_[places_.of(consumed_)]; }
  void pop() { ++consumed_; }
  void retire(uint64_t count) { retired_.store(count, std::memory_order_release); }  // pairs with full()

  void clear() {
    posted_.store(0, std::memory_order_relaxed);
    consumed_ = 0;
    retired_.store(0, std::memory_order_relaxed);
  }

 private:
  const uint32_t requests_;
  const uint32_t sges_per_request_;
  const RingPlaces places_;
  const std::unique_ptr<ReceiveWork[]> works_;
  const std::unique_ptr<Sge[]> sges_;
  std::atomic<uint64_t> posted_{0};
  uint64_t consumed_ = 0;
  std::atomic<uint64_t> retired_{0};
};

}  // namespace verbatim::model
