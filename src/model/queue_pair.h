// A queue pair: its state, and its two sides (requester.h, responder.h).
//
//            modify          modify            modify
//   RESET ──────────→ INIT ──────────→ RTR ──────────→ RTS ←──→ SQD
//     ↑ modify, from any state          └───────┬───────┘  └──→ SQE  (UC, UD: a request that ends in error)
//     └───────────────────────────── ERR ←──────┘ modify, a request that ends in error, or what the peer found wrong
//
// Posting executes what it can at once; what is left is carried on by whoever polls the send CQ, by the answer of the
// peer, or by the engine. Thread-safe: one lock for state and send side, one for the receive queue (taken second).
#pragma once

#include <memory>
#include <mutex>

#include "base/spin_lock.h"
#include "model/completion_queue.h"
#include "model/qp_transitions.h"
#include "model/queue_pair_core.h"
#include "model/requester.h"
#include "model/responder.h"

namespace verbatim::model {

// An XRC receiver may be shared: whoever opens it (Device::share) keeps it as who has made it does.
class QueuePair : public std::enable_shared_from_this<QueuePair> {
 public:
  using Setup = QueuePairSetup;

  // EINVAL: capabilities beyond the device's, or objects that the type does not go with. ENOMEM, ENOSPC: no more of
  // them.
  static Result<std::unique_ptr<QueuePair>> create(Device& device, AsyncEvents& events, const Setup& setup);
  // When it returns no peer can reach it, its completions are gone from its CQs, and its events are acknowledged.
  ~QueuePair();

  Qpn qpn() const { return core_.qpn; }
  QueuePairType type() const { return core_.setup.type; }
  QueuePairState state() const { return core_.state.load(std::memory_order_acquire); }
  const QueuePairCapabilities& capabilities() const { return core_.setup.capabilities; }
  bool signal_all() const { return core_.setup.signal_all; }
  PdId pd() const { return core_.pd(); }
  const XrcDomain* xrc_domain() const { return core_.setup.xrc_domain; }
  AsyncEvents& events() const { return core_.events; }
  EventAcknowledgement& acknowledgement() { return core_.acknowledgement; }

  // The C object that events name goes, and what it was made in: waits until its events are acknowledged, and there are
  // no more of them.
  void silence();

  // EINVAL: a transition or value that the state table or the device does not allow. EHOSTUNREACH: the destination is
  // not of this host, or its processes cannot be reached. On failure nothing has changed.
  Status modify(const QueuePairAttributes& wanted, uint32_t mask);
  QueuePairAttributes query();

  // Holds the queue pair for one call to post_send and executes what it may when it ends.
  class Posting {
   public:
    explicit Posting(QueuePair& queue_pair)
        : queue_pair_(queue_pair), lock_(queue_pair.mutex_), posted_before_(queue_pair.requester_.posted()) {}
    ~Posting() { queue_pair_.run(); }
    // As Requester::enqueue.
    Status send(const SendWork& work) { return queue_pair_.requester_.enqueue(work); }
    // As if nothing had been sent in this call.
    void withdraw() { queue_pair_.requester_.take_back(posted_before_); }

   private:
    QueuePair& queue_pair_;
    std::lock_guard<SpinLock> lock_;
    const uint64_t posted_before_;
  };

  // EINVAL: in RESET, too many SGEs, or it takes its receives from a shared queue. ENOMEM: the queue is full.
  Status post_receive(const ReceiveWork& work);

  // One slice of unfinished work, unless somebody else is at it. For CompletionQueue.
  Backlog carry_on();
  // A completion was taken. For CompletionQueue.
  void retire(WorkQueueKind kind, uint64_t count);
  // What `from` says it found wrong with an operation on this queue pair. False while it is not known whether `from`
  // may say so. For Device.
  bool on_notice(const local::Peer& from, const local::NoticeFields& notice);
  // A completion queue broke, maybe one of its own. For Device.
  void on_broken_queue();
  // A request of a peer for this queue pair; nothing while it is not done with. For Device.
  std::optional<local::ReplyFields> serve(const local::Request& request);
  // The answer to a request that this queue pair has posted. For Device.
  void deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply);
  // The shared receive queue, which is not its own, is going. For Device.
  void forget(const SharedReceiveQueue& shared);
  // Some peer has ended. For Device.
  void on_peer_dead();

 private:
  QueuePair(Device& device, AsyncEvents& events, const Setup& setup, Qpn qpn);

  Status check_values(const QueuePairAttributes& wanted, uint32_t mask) const;
  Status connect(const AddressVector& address, Qpn destination);
  void apply(const QueuePairAttributes& wanted, uint32_t mask);
  void publish();
  void reset();
  // With mutex_ held: executes what it may, and sees to it that somebody carries on what is left.
  void run();
  // The head of the send queue has failed.
  void on_failure();
  void enter_error();
  void report_drained();
  // To ERR when one of its completion queues is broken.
  void follow_completion_queues();

  mutable SpinLock mutex_;  // guards what follows, but for the receive queue
  QueuePairCore core_;      // its state is written under both locks
  Requester requester_;
  Responder responder_;
  bool feeding_ = false;
  bool owes_drained_event_ = false;
};

}  // namespace verbatim::model
