// Both lanes between this process and one peer (lane_layout.h), from this side: posts requests and reads their answers,
// reads the peer's requests and answers them. Post from any thread; everything else by one thread at a time, the one
// that holds Lanes' turn.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/guarded_copy.h"
#include "base/spin_lock.h"
#include "local/adapter.h"
#include "local/peer.h"

namespace verbatim::local {

// Up to this many bytes travel in the lane; the receiver fetches longer messages from the sender's memory, or they go
// in parts of this size.
inline constexpr uint32_t kLaneMessageBytes = 8 * 1024;

// Who is to hear of an answer. `attempt` tells the answers to what was withdrawn from those to what was posted anew.
struct Awaiting {
  Qpn source;
  uint64_t attempt = 0;
  uint32_t number = 0;
};

enum class LanePost {
  shown,
  full,   // the peer has not answered enough of what was posted before
  fault,  // there is no memory behind the payload
};

class LanePair;

// A peer's request while it is being served: what was read of it is a copy, so that the peer cannot change it later.
class Request {
 public:
  Request(const RequestFields& fields, const Lane& lane, Peer& from, uint64_t position, LanePair& lanes)
      : fields_(fields), lane_(lane), from_(from), position_(position), lanes_(lanes) {}
  const RequestFields& fields() const { return fields_; }
  Peer& from() const { return from_; }
  bool is_fetched() const { return fields_.flags & lane_flag::kFetch; }
  // Tells the requests of one peer apart, in order.
  uint64_t position() const { return position_; }
  // The payload, or the list of Sge; a span of shared memory that a lying peer may change while it is read.
  std::span<const uint8_t> payload() const;
  // Begins to bring the next request here, while this one keeps us busy for longer than that takes.
  void expect_next() const {
    const LaneRequest& next = lane_.requests[(position_ + 1) % kLaneRequests];
    __builtin_prefetch(&next);
    __builtin_prefetch(next.data + sizeof next.data - 1);
  }
  // Shows the answer now, not when serving is over: once the program sees a completion it may end at any moment, and
  // the peer is to know by then. The payload is the peer's again. What serve() returns says the same.
  void answer(const ReplyFields& reply) const;
  bool is_answered() const { return answered_; }
  // Sends back what a READ asked for: full when there is no room for it now, fault when there is no memory.
  LanePost respond(std::span<const uint8_t> data, CopyFault* fault) const;

 private:
  const RequestFields fields_;
  const Lane& lane_;
  Peer& from_;
  const uint64_t position_;
  LanePair& lanes_;
  mutable bool answered_ = false;
};

class LanePair {
 public:
  // ENOSPC: no lane is free.
  static Result<std::unique_ptr<LanePair>> create(Adapter& adapter, std::shared_ptr<Peer> peer);
  ~LanePair();

  const std::shared_ptr<Peer>& peer() const { return peer_; }

  // Copies the payload in and shows the request to the peer; the caller wakes it. The sum of the payload's lengths is
  // at most kLaneMessageBytes + 40, or kMaxSges descriptors. Some room is kept for responses, so that a READ does not
  // wait for ever behind what goes the same way.
  LanePost post(RequestFields fields, std::span<const iovec> payload, const Awaiting& awaiting, CopyFault* fault);

  // Hands the answers that have come to `deliver(const Awaiting&, const ReplyFields&)`, oldest first; returns whether
  // there was any. deliver() may post.
  template <class Deliver>
  bool take_replies(Deliver&& deliver);

  // Hands up to `most` of the peer's requests to `serve(const Request&) -> std::optional<ReplyFields>`, oldest first.
  // Nothing: the request is not done with and comes again next time. Returns whether anything happened.
  template <class Serve>
  bool take_requests(int most, Serve&& serve);

  // Looks for the peer's lane toward us, if there is news.
  void find_other_lane();

 private:
  friend void Request::answer(const ReplyFields& reply) const;
  struct Sent {
    Awaiting awaiting;
    uint64_t payload_end = 0;
  };
  LanePair(Adapter& adapter, std::shared_ptr<Peer> peer, uint32_t index, Lane* lane);
  // Where a payload of that length goes, contiguous, `tail` being where those that are needed yet begin; nothing when
  // there is no room.
  std::optional<uint64_t> place(uint32_t length, uint64_t tail, uint64_t room) const;
  bool read_request(RequestFields& out) const;
  bool read_reply(uint64_t number, ReplyFields& out) const;
  static bool is_sound(const RequestFields& fields);
  void answer(const ReplyFields& reply);

  Adapter& adapter_;
  const std::shared_ptr<Peer> peer_;
  const uint32_t index_;
  Lane* const lane_;
  const Lane* other_ = nullptr;
  uint64_t seen_changes_ = ~uint64_t{0};
  uint64_t served_ = 0;  // of the peer's requests
  bool trusted_ = true;  // until it sends nonsense

  // Our own requests: those posted are what the thread with the turn may read of sent_, those answered what posters may
  // write again.
  const std::unique_ptr<Sent[]> sent_;
  std::atomic<uint64_t> answered_{0};
  std::atomic<uint64_t> posted_{0};
  SpinLock mutex_;             // held by who posts; guards what follows
  uint64_t payload_head_ = 0;  // counts bytes, modulo kLanePayloadBytes a place
};

template <class Deliver>
bool LanePair::take_replies(Deliver&& deliver) {
  if (!other_) return false;
  const uint64_t first = answered_.load(std::memory_order_relaxed);
  // A peer may claim to have answered what was never asked, and what deliver() will ask.
  const uint64_t asked = posted_.load(std::memory_order_acquire);  // pairs with post()
  uint64_t next = first;
  for (ReplyFields reply; next != asked && read_reply(next, reply);) {
    const Awaiting awaiting = sent_[next % kLaneRequests].awaiting;
    answered_.store(++next, std::memory_order_release);  // pairs with post()
    deliver(awaiting, reply);
  }
  return next != first;
}

template <class Serve>
bool LanePair::take_requests(int most, Serve&& serve) {
  if (!other_ || !trusted_) return false;
  for (int i = 0; i < most; ++i) {
    RequestFields fields;
    if (!read_request(fields)) return i != 0;
    if (!is_sound(fields)) {
      trusted_ = false;
      return true;
    }
    const Request request(fields, *other_, *peer_, served_, *this);
    const std::optional<ReplyFields> reply = serve(request);
    if (!reply) return true;
    if (!request.is_answered()) answer(*reply);
  }
  return true;
}

}  // namespace verbatim::local
