// The receiving side of a queue pair: serves the requests that its peers post to this process's lanes. A message takes
// a receive, of the queue pair's own queue or of a shared one, has its data put there, and completes it; an atomic is
// executed. What is long is served in slices.
//
// serve() is used under the queue pair's lock; posting receives needs only the receive queue's (taken second).
#pragma once

#include <mutex>
#include <optional>

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
};

class Responder {
 public:
  explicit Responder(QueuePairCore& core);

  // EINVAL: too many SGEs. ENOMEM: the queue is full. `flushes`: the queue pair is in ERR and has to flush it.
  Status post(const ReceiveWork& work, bool& flushes);

  // The answer, or nothing while there is more to do: the same request comes again.
  std::optional<local::ReplyFields> serve(const local::Request& request, Fatality& fatality);

  // After the state became ERR: what is posted is flushed.
  void flush();
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
    uint64_t position = 0;  // the request's
    TakenReceive receive;
    PdId pd;
    SharedReceiveQueue* shared = nullptr;
    uint64_t offset = 0;  // bytes that are in place
    uint64_t length = 0;
  };

  Reply serve_message(const local::Request& request, Fatality& fatality);
  Reply serve_datagram(const local::Request& request, Fatality& fatality);
  Reply serve_atomic(const local::Request& request, Fatality& fatality);
  // Takes a receive for it; the answer when that ends it already.
  Reply begin(const local::Request& request, Fatality& fatality);
  Reply end(const local::Request& request, Fatality& fatality);
  bool is_from_peer(const local::Request& request) const;
  // Whether the sender still meant it when its last byte was fetched.
  bool is_still_meant(const local::Request& request) const;
  SharedReceiveQueue* shared_queue_for(const local::Request& request) const;
  bool take_receive(SharedReceiveQueue* shared);
  // Puts the next slice in place; false and the verdict when it cannot.
  bool place(const local::Request& request, local::Verdict& verdict);
  bool fetch(const local::Request& request, const Sge& source, uint64_t skip, uint8_t* to, uint64_t length,
             local::Verdict& verdict);
  // Where byte `offset` of the receive is, and how many from there on lie together.
  uint8_t* receive_address(uint64_t offset, uint64_t& length, local::Verdict& verdict) const;
  bool check_receive(uint64_t length, local::Verdict& verdict) const;
  // The receive that was taken is done with.
  void complete(const local::Request& request, CompletionStatus status, Reason reason);
  void complete_flushed(uint64_t work_id);
  Reply refuse(const local::Request& request, const local::Verdict& own, CompletionStatus remote, Reason remote_reason);
  Reply drop(const local::Request& request, Reason reason);
  void note_first_message();
  void publish_receives();

  QueuePairCore& core_;
  const uint32_t receive_count_;  // where the own queue's are counted
  uint32_t stream_ = 0;
  uint32_t expected_ = 0;
  bool established_ = false;
  Inbound inbound_;

  std::mutex receive_mutex_;
  ReceiveQueue receives_;
};

template <class Purge>
void Responder::clear(Purge&& purge) {
  std::lock_guard lock(receive_mutex_);
  core_.state.store(QueuePairState::reset, std::memory_order_release);  // pairs with QueuePair::state()
  purge();
  receives_.clear();
  publish_receives();
  stream_ = expected_ = 0;
  established_ = false;
  inbound_ = {};
}

}  // namespace verbatim::model
