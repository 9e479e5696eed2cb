// A queue pair: its state, its two queues, and the endpoint through which its requests reach the peer.
//
//            modify          modify            modify
//   RESET ──────────→ INIT ──────────→ RTR ──────────→ RTS ←──→ SQD
//     ↑ modify, from any state          └───────┬───────┘
//     └───────────────────────────── ERR ←──────┘ modify, a request that ends in error, or a notice of the peer
//
// Posting executes what it can at once; what is left is carried on by whoever polls the send CQ, else by the engine.
// Thread-safe: one lock for state and send queue, one for the receive queue (taken second).
#pragma once

#include <memory>
#include <mutex>

#include "local/local_endpoint.h"
#include "model/address_vector.h"
#include "model/async_events.h"
#include "model/completion_queue.h"
#include "model/device.h"
#include "model/qp_transitions.h"
#include "model/receive_queue.h"
#include "model/send_queue.h"

namespace verbatim::model {

// As ibv_qp_cap: requests, SGEs a request, bytes.
struct QueuePairCapabilities {
  uint32_t max_send_wr = 0;
  uint32_t max_recv_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_recv_sge = 0;
  uint32_t max_inline_data = 0;
};

// As ibv_qp_attr, without capabilities and alternate path. PSNs 24 bits, timers as IBTA encodes them.
struct QueuePairAttributes {
  QueuePairState state = QueuePairState::reset;
  QueuePairState current_state = QueuePairState::reset;
  PathMtu path_mtu = PathMtu::bytes_1024;
  uint8_t path_migration = 0;
  uint32_t qkey = 0;
  uint32_t receive_psn = 0;
  uint32_t send_psn = 0;
  Qpn destination;
  uint32_t access = 0;
  AddressVector address;
  uint16_t pkey_index = 0;
  uint8_t initiator_depth = 0;  // max_rd_atomic
  uint8_t responder_depth = 0;  // max_dest_rd_atomic
  uint8_t min_rnr_timer = 0;
  uint8_t port = 0;
  uint8_t timeout = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  bool notify_drained = false;  // en_sqd_async_notify
};

class QueuePair {
 public:
  struct Setup {
    QueuePairType type = QueuePairType::rc;
    ProtectionDomain& pd;
    CompletionQueue& send_cq;
    CompletionQueue& receive_cq;
    QueuePairCapabilities capabilities;
    bool signal_all = false;
    void* handle = nullptr;  // the C object that events name
  };

  // EINVAL: capabilities beyond the device's. EOPNOTSUPP: a type other than RC. ENOMEM, ENOSPC: no more of them.
  static Result<std::unique_ptr<QueuePair>> create(Device& device, AsyncEvents& events, const Setup& setup);
  // When it returns no peer can reach it, its completions are gone from its CQs, and its events are acknowledged.
  ~QueuePair();

  Qpn qpn() const { return qpn_; }
  QueuePairState state() const { return state_.load(std::memory_order_acquire); }
  const QueuePairCapabilities& capabilities() const { return setup_.capabilities; }
  bool signal_all() const { return setup_.signal_all; }
  ProtectionDomain& pd() const { return setup_.pd; }
  AsyncEvents& events() const { return events_; }
  EventAcknowledgement& acknowledgement() { return acknowledgement_; }

  // EINVAL: a transition or value that the state table or the device does not allow. EHOSTUNREACH: the destination is
  // not of this host, or its processes cannot be reached. On failure nothing has changed.
  Status modify(const QueuePairAttributes& wanted, uint32_t mask);
  QueuePairAttributes query();

  // Holds the queue pair for one call to post_send and executes what it may when it ends.
  class Posting {
   public:
    explicit Posting(QueuePair& queue_pair)
        : queue_pair_(queue_pair), lock_(queue_pair.mutex_), posted_before_(queue_pair.sends_.posted()) {}
    ~Posting() { queue_pair_.run(kPostingBytes); }
    // EINVAL: not in a state to send, too many SGEs, too much inline data. ENOMEM: the queue is full.
    // EOPNOTSUPP: an operation that is not built.
    Status send(const SendWork& work) { return queue_pair_.enqueue(work); }
    // As if nothing had been sent in this call.
    void withdraw() { queue_pair_.sends_.take_back(posted_before_); }

   private:
    static constexpr uint64_t kPostingBytes = local::kSliceBytes;
    QueuePair& queue_pair_;
    std::lock_guard<std::mutex> lock_;
    const uint64_t posted_before_;
  };

  // EINVAL: in RESET, or too many SGEs. ENOMEM: the queue is full.
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

 private:
  QueuePair(Device& device, AsyncEvents& events, const Setup& setup, Qpn qpn);

  Status check_values(const QueuePairAttributes& wanted, uint32_t mask) const;
  Status connect(const QueuePairAttributes& wanted);
  void apply(const QueuePairAttributes& wanted, uint32_t mask);
  void publish();
  void reset();

  Status enqueue(const SendWork& work);
  void run(uint64_t budget);
  // Whether the head of the send queue may go on in this state.
  bool runnable() const;
  void report_drained();
  // False when the head has to wait on; fails it when it has waited long enough.
  bool keep_waiting(const local::Verdict& verdict);
  void complete_head();
  void fail_head(const local::Verdict& verdict);
  void finish_head(CompletionStatus status, Reason reason);
  void enter_error();
  // To ERR when one of its completion queues is broken.
  void follow_completion_queues();
  void flush_sends();
  void flush_receives();
  Duration patience() const;

  Device& device_;
  AsyncEvents& events_;
  const Setup setup_;
  const Qpn qpn_;
  EventAcknowledgement acknowledgement_;

  mutable std::mutex mutex_;                                  // guards what follows, but for the receive queue
  std::atomic<QueuePairState> state_{QueuePairState::reset};  // written under both locks
  QueuePairAttributes attributes_;
  local::LocalEndpoint endpoint_;
  SendQueue sends_;
  uint64_t head_offset_ = 0;  // bytes of the head that are in place
  Instant wait_until_ = kNever;
  bool waiting_ = false;
  bool feeding_ = false;
  bool owes_drained_event_ = false;

  std::mutex receive_mutex_;
  ReceiveQueue receives_;
};

}  // namespace verbatim::model
