// The send queue's memory: a ring of work requests with room for their SGEs and inline data, and four counts of
// requests ever posted, issued (shown to the peer), executed, and retired. Room is free again when the caller has taken
// the completion that says so, as on hardware; retire() alone may be called without the owner's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "base/ring_places.h"
#include "proto/work.h"

namespace verbatim::model {

class SendQueue {
 public:
  SendQueue(uint32_t requests, uint32_t sges, uint32_t inline_bytes)
      : requests_(requests),
        sges_per_request_(sges),
        inline_bytes_(inline_bytes),
        places_(requests),
        works_(std::make_unique<SendWork[]>(places_.count())),
        sges_(std::make_unique_for_overwrite<Sge[]>(places_.count() * std::max(sges, 1u))),
        inline_data_(std::make_unique_for_overwrite<uint8_t[]>(places_.count() * inline_bytes)) {}

  bool full() const { return posted_ - retired_.load(std::memory_order_acquire) >= requests_; }  // pairs with retire()
  bool idle() const { return executed_ == posted_; }
  // Whether there is one that was not issued.
  bool has_next() const { return issued_ != posted_; }
  // How many wait for the peer's answer.
  uint64_t in_flight() const { return issued_ - executed_; }
  uint64_t executed() const { return executed_; }
  uint64_t posted() const { return posted_; }

  // Copies the request in, its SGEs, and with inline_data what they point at; the caller has checked sizes and room.
  void push(const SendWork& work) {
    const size_t index = places_.of(posted_);
    SendWork& slot = works_[index];
    slot = work;
    Sge* const sges = &sges_[index * std::max(sges_per_request_, 1u)];
    if (work.inline_data) {
      uint8_t* const data = &inline_data_[index * inline_bytes_];
      size_t length = 0;
      for (const Sge& sge : work.sges) {
        if (sge.length) std::memcpy(data + length, reinterpret_cast<const void*>(sge.address), sge.length);
        length += sge.length;
      }
      sges[0] = {reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(length), {}};
      slot.sges = {sges, length ? 1u : 0u};
    } else {
      std::copy(work.sges.begin(), work.sges.end(), sges);
      slot.sges = {sges, work.sges.size()};
    }
    ++posted_;
  }

  // Forgets the requests after the first `posted`, of which none was executed.
  void take_back(uint64_t posted) { posted_ = posted; }

  // The oldest request that was not executed; only when not idle().
  const SendWork& head() const { return works_[places_.of(executed_)]; }
  // The oldest request that was not issued; only when has_next().
  const SendWork& next() const { return works_[places_.of(issued_)]; }
  void issue() {
    begin();
    ++issued_;
  }
  // That one is being tried. What has begun is finished also while the queue is drained.
  void begin() { begun_ = std::max(begun_, issued_ + 1); }
  bool next_has_begun() const { return issued_ < begun_; }
  // Whether one that has begun is not done with.
  bool is_amid_request() const { return executed_ < begun_; }
  // Those in flight are to be issued anew.
  void withdraw() { issued_ = executed_; }
  // The head is done with, whether it was issued or not.
  void pop() { issued_ = std::max(issued_, ++executed_); }
  // Calls visit(const SendWork&) for those in flight.
  template <class Visit>
  void each_in_flight(Visit&& visit) const {
    for (uint64_t i = executed_; i != issued_; ++i) visit(works_[places_.of(i)]);
  }

  void retire(uint64_t count) { retired_.store(count, std::memory_order_release); }  // pairs with full()

  // As if nothing had ever been posted.
  void clear() {
    posted_ = issued_ = executed_ = begun_ = 0;
    retired_.store(0, std::memory_order_relaxed);
  }

 private:
  const uint32_t requests_;
  const uint32_t sges_per_request_;
  const uint32_t inline_bytes_;
  const RingPlaces places_;
  const std::unique_ptr<SendWork[]> works_;
  const std::unique_ptr<Sge[]> sges_;
  const std::unique_ptr<uint8_t[]> inline_data_;
  uint64_t posted_ = 0;
  uint64_t issued_ = 0;
  uint64_t executed_ = 0;
  uint64_t begun_ = 0;
  std::atomic<uint64_t> retired_{0};
};

}  // namespace verbatim::model
