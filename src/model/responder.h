// The receiving side of a queue pair: serves the requests that its peers post to this process's lanes. A message takes
// a receive, of the queue pair's own queue or of a shared one, has its data put there, and completes it; an operation
// on memory that only this process can reach is executed. What is long is served in slices.
//
// serve() is used under the queue pair's lock; posting receives needs only the receive queue's (taken second). The
// receives that are posted are taken under the queue pair's lock alone, and in ERR under the receive queue's.
#pragma once

#include <mutex>
#include <optional>

#include "base/spin_lock.h"
#include "local/revocation.h"
#include "model/queue_pair_core.h"
#include "model/receive_queue.h"
#include "model/shared_receive_queue.h"

namespace verbatim::model {

// What becomes of the queue pair after a request was served.
enum class Fatality {
  none,
  quiet,         // to ERR, which a completion has said
  access_error,  // to ERR, with that event
  request_error,
  operation_error,  // to ERR, with the event of an error of its own that no completion can say
};

class Responder {
 public:
  explicit Responder(QueuePairCore& core);

  // EINVAL: in RESET, too many SGEs, or the receives are of a shared queue. ENOMEM: the queue is full. In ERR it is
  // flushed at once.
  Status post(const ReceiveWork& work);

  // The answer, or nothing while there is more to do: the same request comes again.
  std::optional<local::ReplyFields> serve(const local::Request& request, Fatality& fatality);

  // After the state became ERR: what is posted is flushed.
  void flush();
  // The shared queue is going: what a message has taken from it goes with it.
  void forget(const SharedReceiveQueue& shared);
  // Sets the state and forgets what was posted, together for those who post. Calls `purge` between.
  template <class Purge>
  void clear(Purge&& purge);
  // Sets the state, together for those who post.
  void set_state(QueuePairState state);
  void retire(uint64_t count) { receives_.retire(count); }

 private:
  using Reply = std::optional<local::ReplyFields>;
  // A message that has begun.
  struct Inbound {
    bool active = false;
    // The request it serves; a receive that the last one could not use waits for the next.
    Incarnation from{};
    uint64_t position = kNone;
    static constexpr uint64_t kNone = ~uint64_t{0};
    // In parts: whose next one is the one from `offset` on.
    uint32_t number = 0;
    TakenReceive receive;
    PdId pd;
    SharedReceiveQueue* shared = nullptr;
    bool fetched_by_kernel = false;
    uint64_t offset = 0;  // bytes that are in place
    uint64_t length = 0;
    std::optional<local::Revocation> invalidation;  // made, and its end is waited for

    // As new, for a receive of that domain and queue. The old one's pieces stay where they are: none of them counts.
    void reset(PdId domain = {}, SharedReceiveQueue* queue = nullptr) {
      active = false;
      from = {};
      position = kNone;
      number = 0;
      receive.work_id = 0;
      receive.count = 0;
      pd = domain;
      shared = queue;
      fetched_by_kernel = false;
      offset = length = 0;
      invalidation.reset();
    }
  };

  Reply serve_message(const local::Request& request, Fatality& fatality);
  Reply serve_datagram(const local::Request& request, Fatality& fatality);
  // An atomic, or a part of a READ or WRITE.
  Reply serve_operation(const local::Request& request, Fatality& fatality);
  // Once it is known to have the right to it, at `address`.
  static local::ReplyFields change_word(const local::Request& request, SendWork& work, uint8_t* address);
  static local::ReplyFields move(const local::Request& request, const SendWork& work, uint8_t* address);
  bool is_begun(const local::Request& request) const;
  // Takes a receive for it; the answer when that ends it already.
  Reply begin(const local::Request& request, Fatality& fatality);
  // The same for a part that is not the first of its message.
  Reply go_on(const local::Request& request, Fatality& fatality);
  Reply end(const local::Request& request, Fatality& fatality);
  bool is_from_peer(const local::Request& request);
  // Forgets what was read of another process.
  void know_sender(const local::Request& request);
  // The entry of the queue pair that sent it; null when it is gone.
  const local::QueuePairFields* source_of(const local::Request& request);
  // Whether its sender has been reset since it was posted.
  bool is_stale(const local::Request& request);
  // Whether the sender still meant it when its last byte was fetched.
  bool is_still_meant(const local::Request& request);
  // Whether the receive holds what has come; the answer when it does not.
  Reply check_length(const local::Request& request, Fatality& fatality);
  SharedReceiveQueue* shared_queue_for(const local::Request& request) const;
  bool take_receive(SharedReceiveQueue* shared);
  // What became of a slice, and whose error it is: the verdict's.
  enum class Placing { done, interrupted, receive_bad, source_bad, source_unreachable };
  Placing place(const local::Request& request, local::Verdict& verdict);
  Placing place_from_lane(const local::Request& request, local::Verdict& verdict);
  Placing place_from_sender(const local::Request& request, local::Verdict& verdict);
  Placing fetch_slice(const local::Request& request, local::Verdict& verdict);
  // The next slice of up to `length` bytes, from byte `skip` of one of the sender's SGEs on.
  Placing fetch(const local::Request& request, const Sge& source, uint64_t skip, local::TouchRecords::Guard& touch,
                uint8_t* to, uint64_t length, local::Verdict& verdict);
  // Where this process sees the sender's memory; null where only the kernel does.
  const uint8_t* fetched_data(const local::Request& request, uint64_t into_region);
  Placing fetch_directly(const local::SegmentView& view, const Sge& source, const uint8_t* data, uint8_t* to,
                         uint64_t length, local::Verdict& verdict);
  Placing fetch_by_kernel(const local::Request& request, const Sge& source, uint64_t remote,
                          local::TouchRecords::Guard& touch, uint8_t* to, uint64_t length, local::Verdict& verdict);
  static Placing source_gone(const Sge& source, local::Verdict& verdict);
  static Placing receive_gone(const void* address, local::Verdict& verdict);
  // Where byte `offset` of the receive is, and how many from there on lie together.
  uint8_t* receive_address(uint64_t offset, uint64_t& length, local::Verdict& verdict);
  bool check_receive(uint64_t length, local::Verdict& verdict);
  // The receive that was taken is done with.
  void complete(const local::Request& request, CompletionStatus status, Reason reason);
  // In ERR with receive_mutex_ held.
  void flush_posted();
  void complete_flushed(uint64_t work_id);
  Reply refuse_long(const local::Request& request, Fatality& fatality);
  Reply refuse(const local::Request& request, const local::Verdict& own, CompletionStatus remote, Reason remote_reason);
  Reply drop(const local::Request& request, Reason reason);
  void note_first_message();
  // Of a message: it took a receive.
  local::ReplyFields accepted() const;
  // With receive_mutex_ held.
  void publish_receives();

  QueuePairCore& core_;
  const uint32_t receive_count_;  // where the own queue's are counted
  uint32_t stream_ = 0;
  std::optional<uint32_t> expected_;  // the number of the stream's next message
  bool established_ = false;
  Inbound inbound_;
  // The sender that was last found to be the peer, and since when.
  struct KnownSender {
    Incarnation process{};
    Qpn queue_pair;
    uint64_t generation = 0;  // PeerTable's
    bool operator==(const KnownSender&) const = default;
  };
  KnownSender sender_;
  // What was read last: of the sender, of the receives, and of what peers ask for.
  Incarnation source_process_{};
  local::KnownQueuePair source_;
  local::KnownRegion fetched_region_;
  // The sender's region whose mapping, if it has one, is at hand.
  local::KnownRegion mapped_region_;
  std::shared_ptr<const local::PeerMapping> mapping_;
  local::KnownRegion receive_region_;
  local::KnownRegion asked_region_;

  SpinLock receive_mutex_;
  ReceiveQueue receives_;
  uint64_t counted_before_;  // receives of the time before the last reset
};

template <class Purge>
void Responder::clear(Purge&& purge) {
  std::lock_guard lock(receive_mutex_);
  core_.state.store(QueuePairState::reset, std::memory_order_release);  // pairs with QueuePair::state()
  purge();
  // The count goes on, so that a peer which did not notice knows the new ones for new.
  counted_before_ += receives_.posted();
  receives_.clear();
  publish_receives();
  stream_ = 0;
  expected_.reset();
  established_ = false;
  inbound_ = {};
}

}  // namespace verbatim::model
