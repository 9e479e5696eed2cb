#include "model/queue_pair.h"

#include <cerrno>

#include "base/log.h"
#include "local/revocation.h"

namespace verbatim::model {
namespace {

constexpr uint32_t kPsnLimit = 1u << 24;
constexpr uint8_t kTimerLimit = 32;
constexpr uint8_t kRetryLimit = 8;
constexpr uint32_t kKnownAccess = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead |
                                  access::kRemoteAtomic | access::kWindowBind | access::kOptional;

bool fits(const QueuePairCapabilities& wanted, const DeviceAttributes& limits) {
  const auto requests = static_cast<uint32_t>(limits.max_qp_wr);
  const auto sges = static_cast<uint32_t>(limits.max_sge);
  return wanted.max_send_wr <= requests && wanted.max_recv_wr <= requests && wanted.max_send_sge <= sges &&
         wanted.max_recv_sge <= sges && wanted.max_inline_data <= limits.max_inline_data;
}

bool may_be_reached(QueuePairState state) {
  return state == QueuePairState::rtr || state == QueuePairState::rts || state == QueuePairState::sqd;
}

CompletionOpcode completion_opcode(SendOpcode opcode) {
  return opcode == SendOpcode::rdma_read ? CompletionOpcode::rdma_read : CompletionOpcode::rdma_write;
}

AsyncEventType event_of(local::NoticeKind kind) {
  switch (kind) {
    case local::NoticeKind::access_error:
      return AsyncEventType::queue_pair_access_error;
    case local::NoticeKind::invalid_request:
      return AsyncEventType::queue_pair_request_error;
    case local::NoticeKind::operation_error:
      break;
  }
  return AsyncEventType::queue_pair_fatal;
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(Device& device, AsyncEvents& events, const Setup& setup) {
  if (setup.type != QueuePairType::rc) return Status{EOPNOTSUPP};
  if (!fits(setup.capabilities, device.attributes())) return Status{EINVAL};
  if (!device.qps.take(device.attributes().max_qp)) return Status{ENOMEM};
  Result<Qpn> qpn = device.adapter().allocate_qpn();
  if (!qpn.ok()) {
    device.qps.give_back();
    return qpn.status();
  }
  std::unique_ptr<QueuePair> queue_pair(new QueuePair(device, events, setup, qpn.value()));
  device.add(*queue_pair);
  return queue_pair;
}

QueuePair::QueuePair(Device& device, AsyncEvents& events, const Setup& setup, Qpn qpn)
    : device_(device),
      events_(events),
      setup_(setup),
      qpn_(qpn),
      endpoint_(device.adapter(), device.peers()),
      sends_(setup.capabilities.max_send_wr, setup.capabilities.max_send_sge, setup.capabilities.max_inline_data),
      receives_(setup.capabilities.max_recv_wr, setup.capabilities.max_recv_sge) {
  setup_.pd.add_user();
  setup_.send_cq.add_user();
  setup_.receive_cq.add_user();
  publish();
}

QueuePair::~QueuePair() {
  device_.remove(*this);
  {
    std::lock_guard lock(mutex_);
    reset();
    publish();
  }
  setup_.send_cq.remove_feeder(*this);
  local::settle_queue_pair(device_.adapter(), device_.peers(), device_.clock(), qpn_);
  events_.retire(acknowledgement_);
  device_.adapter().release_qpn(qpn_);
  setup_.receive_cq.remove_user();
  setup_.send_cq.remove_user();
  setup_.pd.remove_user();
  device_.qps.give_back();
}

// ---- state ----

Status QueuePair::modify(const QueuePairAttributes& wanted, uint32_t mask) {
  bool narrowed = false;
  {
    std::lock_guard lock(mutex_);
    const QueuePairState from = state();
    const QueuePairState to = mask & attribute::kState ? wanted.state : from;
    if ((mask & attribute::kCurrentState) && wanted.current_state != from) return {EINVAL};
    if (Status status = check_transition(setup_.type, from, to, mask); !status.ok()) return status;
    if (Status status = check_values(wanted, mask); !status.ok()) return status;
    if (mask & attribute::kAddress) {
      if (Status status = connect(wanted); !status.ok()) return status;
    }
    owes_drained_event_ = to == QueuePairState::sqd && (mask & attribute::kSqdNotify) && wanted.notify_drained;
    narrowed = may_be_reached(from) && (!may_be_reached(to) || (mask & (attribute::kAccess | attribute::kAddress)));
    apply(wanted, mask);
    if (to == QueuePairState::reset) {
      reset();
    } else if (to == QueuePairState::err) {
      enter_error();
    } else {
      state_.store(to, std::memory_order_release);  // pairs with state()
    }
    publish();
    run(local::kSliceBytes);
    log(LogLevel::trace, "QP {:#08x}: {} to {}", qpn_.value, name(from), name(to));
  }
  // Not under the lock: a peer in the middle of an operation is waited for.
  if (narrowed) local::settle_queue_pair(device_.adapter(), device_.peers(), device_.clock(), qpn_);
  return Status::success();
}

Status QueuePair::check_values(const QueuePairAttributes& wanted, uint32_t mask) const {
  using namespace attribute;
  const DeviceAttributes& limits = device_.attributes();
  const auto refuse = [&](uint32_t bit, bool valid) { return (mask & bit) && !valid; };
  const bool refused =
      refuse(kPortNumber, wanted.port == model::kPort) || refuse(kPkeyIndex, wanted.pkey_index < limits.max_pkeys) ||
      refuse(kAccess, (wanted.access & ~kKnownAccess) == 0) ||
      refuse(kPathMtu, wanted.path_mtu >= PathMtu::bytes_256 && wanted.path_mtu <= PathMtu::bytes_4096) ||
      refuse(kDestination, wanted.destination.value < kPsnLimit) || refuse(kTimeout, wanted.timeout < kTimerLimit) ||
      refuse(kMinRnrTimer, wanted.min_rnr_timer < kTimerLimit) ||
      refuse(kRetryCount, wanted.retry_count < kRetryLimit) || refuse(kRnrRetry, wanted.rnr_retry < kRetryLimit) ||
      refuse(kInitiatorDepth, wanted.initiator_depth <= limits.max_qp_init_rd_atom) ||
      refuse(kResponderDepth, wanted.responder_depth <= limits.max_qp_rd_atom);
  if (refused) return {EINVAL};
  // The device has no automatic path migration.
  if (mask & kAlternatePath) return {EOPNOTSUPP};
  return Status::success();
}

Status QueuePair::connect(const QueuePairAttributes& wanted) {
  const auto refuse = [&](int error, Reason reason, const std::string& detail) {
    log(LogLevel::warn, "QP {:#08x}: modify refused, {} ({}: {})", qpn_.value, detail, describe(reason).name,
        describe(reason).meaning);
    return Status{error};
  };
  const AddressVector& address = wanted.address;
  if (address.port != model::kPort) return {EINVAL};
  if (!address.is_global) return refuse(EINVAL, Reason::no_global_route, "the address has no GRH");
  const std::optional<GidEntry> own = device_.gid_at(address.sgid_index);
  if (!own || own->empty()) return {EINVAL};
  if (!device_.is_local(address.dgid))
    return refuse(EHOSTUNREACH, Reason::not_this_host, "GID " + address.dgid.text() + " is not here");
  const Qpn destination = wanted.destination;
  if (!endpoint_.connect({qpn_, destination, setup_.pd.id(), own->gid, address.dgid}).ok())
    return refuse(EHOSTUNREACH, Reason::no_agent, "nobody can introduce the owner of the peer QP");
  return Status::success();
}

void QueuePair::apply(const QueuePairAttributes& wanted, uint32_t mask) {
  using namespace attribute;
  const auto take = [&](uint32_t bit, auto QueuePairAttributes::*field) {
    if (mask & bit) attributes_.*field = wanted.*field;
  };
  take(kAccess, &QueuePairAttributes::access);
  take(kPkeyIndex, &QueuePairAttributes::pkey_index);
  take(kPortNumber, &QueuePairAttributes::port);
  take(kQkey, &QueuePairAttributes::qkey);
  take(kAddress, &QueuePairAttributes::address);
  take(kPathMtu, &QueuePairAttributes::path_mtu);
  take(kTimeout, &QueuePairAttributes::timeout);
  take(kRetryCount, &QueuePairAttributes::retry_count);
  take(kRnrRetry, &QueuePairAttributes::rnr_retry);
  take(kInitiatorDepth, &QueuePairAttributes::initiator_depth);
  take(kResponderDepth, &QueuePairAttributes::responder_depth);
  take(kMinRnrTimer, &QueuePairAttributes::min_rnr_timer);
  take(kPathMigration, &QueuePairAttributes::path_migration);
  take(kDestination, &QueuePairAttributes::destination);
  if (mask & kReceivePsn) attributes_.receive_psn = wanted.receive_psn % kPsnLimit;
  if (mask & kSendPsn) attributes_.send_psn = wanted.send_psn % kPsnLimit;
}

QueuePairAttributes QueuePair::query() {
  std::lock_guard lock(mutex_);
  // Who was told that the queue broke, and looks, must not be faster than the engine.
  follow_completion_queues();
  QueuePairAttributes result = attributes_;
  result.state = result.current_state = state();
  return result;
}

void QueuePair::publish() {
  device_.adapter().publish({.qpn = qpn_,
                             .state = static_cast<uint32_t>(state()),
                             .access = attributes_.access,
                             .pd = setup_.pd.id(),
                             .peer = endpoint_.path().peer,
                             .responder_depth = attributes_.responder_depth,
                             .own_gid = endpoint_.path().own_gid,
                             .peer_gid = endpoint_.path().peer_gid});
}

void QueuePair::reset() {
  {
    std::lock_guard lock(receive_mutex_);
    state_.store(QueuePairState::reset, std::memory_order_release);  // pairs with state()
    // Before the queues are cleared: until it is purged, who polls a CQ retires requests of the time before.
    setup_.send_cq.purge(*this);
    setup_.receive_cq.purge(*this);
    receives_.clear();
  }
  sends_.clear();
  head_offset_ = 0;
  waiting_ = false;
  attributes_ = {};
}

void QueuePair::enter_error() {
  {
    std::lock_guard lock(receive_mutex_);
    state_.store(QueuePairState::err, std::memory_order_release);  // pairs with state()
  }
  publish();
  flush_sends();
  flush_receives();
}

void QueuePair::follow_completion_queues() {
  if ((setup_.send_cq.broken() || setup_.receive_cq.broken()) && may_be_reached(state())) enter_error();
}

void QueuePair::on_broken_queue() {
  std::lock_guard lock(mutex_);
  follow_completion_queues();
}

bool QueuePair::on_notice(const local::Peer& from, const local::NoticeFields& notice) {
  std::lock_guard lock(mutex_);
  if (notice.source != endpoint_.path().peer || !may_be_reached(state())) return true;
  const std::shared_ptr<local::Peer> owner = device_.peers().owner(notice.source.slot());
  if (!owner) return false;
  if (owner.get() != &from) return true;
  const auto kind = static_cast<local::NoticeKind>(notice.kind);
  log(LogLevel::warn, "QP {:#08x}: its peer QP {:#08x} of process {} was refused an operation here; going to ERR ({})",
      qpn_.value, notice.source.value, from.pid(), describe(Reason::refused_by_peer).name);
  enter_error();
  events_.raise({event_of(kind), setup_.handle, 0, &acknowledgement_});
  return true;
}

// ---- send queue ----

Status QueuePair::enqueue(const SendWork& work) {
  switch (state()) {
    case QueuePairState::reset:
    case QueuePairState::init:
    case QueuePairState::rtr:
      return {EINVAL};
    default:
      break;
  }
  if (work.opcode != SendOpcode::rdma_write && work.opcode != SendOpcode::rdma_read) return {EOPNOTSUPP};
  if (work.sges.size() > setup_.capabilities.max_send_sge) return {EINVAL};
  if (work.inline_data && (work.opcode == SendOpcode::rdma_read || work.length > setup_.capabilities.max_inline_data))
    return {EINVAL};
  if (sends_.full()) return {ENOMEM};
  sends_.push(work);
  return Status::success();
}

void QueuePair::run(uint64_t budget) {
  follow_completion_queues();
  if (state() == QueuePairState::err) flush_sends();
  while (runnable()) {
    const uint64_t before = head_offset_;
    local::Verdict verdict;
    local::Advance outcome = local::Advance::failed;
    const SendWork& work = sends_.head();
    if (work.length > device_.message_limit()) {
      verdict.status = CompletionStatus::local_length_error;
      verdict.reason = Reason::message_too_long;
    } else if (work.opcode == SendOpcode::rdma_read && attributes_.initiator_depth == 0) {
      verdict.status = CompletionStatus::local_qp_operation_error;
      verdict.reason = Reason::no_read_depth;
    } else {
      outcome = endpoint_.advance(work, head_offset_, verdict);
    }
    if (outcome != local::Advance::waiting) waiting_ = false;
    const uint64_t copied = head_offset_ - before;
    if (outcome == local::Advance::done) {
      complete_head();
    } else if (outcome == local::Advance::failed) {
      fail_head(verdict);
    } else if (outcome == local::Advance::waiting && keep_waiting(verdict)) {
      break;
    }
    if (copied >= budget) break;
    budget -= copied;
  }
  if (runnable() && !feeding_) {
    feeding_ = true;
    setup_.send_cq.add_feeder(*this);
  }
  if (owes_drained_event_) report_drained();
}

bool QueuePair::runnable() const {
  if (sends_.idle()) return false;
  // SQD: a message that has begun is finished, the next one waits for RTS.
  return state() == QueuePairState::rts || (state() == QueuePairState::sqd && head_offset_ != 0);
}

void QueuePair::report_drained() {
  if (state() == QueuePairState::sqd && head_offset_ != 0) return;
  owes_drained_event_ = false;
  if (state() == QueuePairState::sqd)
    events_.raise({AsyncEventType::send_queue_drained, setup_.handle, 0, &acknowledgement_});
}

Backlog QueuePair::carry_on() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // Whoever holds it is posting, and so carries on.
  if (!lock.owns_lock()) return Backlog::waiting;
  run(local::kSliceBytes);
  if (runnable()) return waiting_ ? Backlog::waiting : Backlog::working;
  feeding_ = false;
  return Backlog::none;
}

Duration QueuePair::patience() const {
  // IBTA 9.7.6.1.3: 4.096 us * 2^timeout; 0 is for ever.
  return Duration::nanoseconds(int64_t{4096} << attributes_.timeout) * (attributes_.retry_count + 1);
}

bool QueuePair::keep_waiting(const local::Verdict& verdict) {
  const Instant now = device_.clock().now();
  if (!waiting_) {
    waiting_ = true;
    wait_until_ = attributes_.timeout == 0 ? kNever : now + patience();
  }
  if (now < wait_until_) return true;
  waiting_ = false;
  fail_head(verdict);
  return false;
}

void QueuePair::complete_head() {
  const SendWork& work = sends_.head();
  log(LogLevel::trace, "QP {:#08x} WR {:#x} {} of {} bytes: SUCCESS", qpn_.value, work.work_id, name(work.opcode),
      work.length);
  if (work.signaled || setup_.signal_all) {
    finish_head(CompletionStatus::success, Reason::none);
  } else {
    sends_.pop();
    head_offset_ = 0;
  }
}

void QueuePair::fail_head(const local::Verdict& verdict) {
  const SendWork& work = sends_.head();
  log(LogLevel::warn, "QP {:#08x} WR {:#x} {} of {} bytes: {} ({}: {}{}{})", qpn_.value, work.work_id,
      name(work.opcode), work.length, name(verdict.status), describe(verdict.reason).name,
      describe(verdict.reason).meaning, verdict.detail.empty() ? "" : "; ", verdict.detail);
  finish_head(verdict.status, verdict.reason);
  enter_error();
}

void QueuePair::finish_head(CompletionStatus status, Reason reason) {
  const SendWork& work = sends_.head();
  const Completion completion{.work_id = work.work_id,
                              .status = status,
                              .opcode = completion_opcode(work.opcode),
                              .reason = reason,
                              .byte_length = static_cast<uint32_t>(work.length),
                              .qpn = qpn_};
  sends_.pop();
  head_offset_ = 0;
  setup_.send_cq.push(completion, *this, WorkQueueKind::send, sends_.executed());
}

void QueuePair::flush_sends() {
  while (!sends_.idle()) {
    log(LogLevel::info, "QP {:#08x} WR {:#x} {}: WR_FLUSH_ERR ({}: {})", qpn_.value, sends_.head().work_id,
        name(sends_.head().opcode), describe(Reason::flushed).name, describe(Reason::flushed).meaning);
    finish_head(CompletionStatus::flushed, Reason::flushed);
  }
}

void QueuePair::retire(WorkQueueKind kind, uint64_t count) {
  if (kind == WorkQueueKind::send)
    sends_.retire(count);
  else
    receives_.retire(count);
}

// ---- receive queue ----

Status QueuePair::post_receive(const ReceiveWork& work) {
  bool flush = false;
  {
    std::lock_guard lock(receive_mutex_);
    if (state() == QueuePairState::reset || work.sges.size() > setup_.capabilities.max_recv_sge) return {EINVAL};
    if (receives_.full()) return {ENOMEM};
    receives_.push(work);
    flush = state() == QueuePairState::err;
  }
  if (flush) flush_receives();
  return Status::success();
}

void QueuePair::flush_receives() {
  std::lock_guard lock(receive_mutex_);
  while (!receives_.empty()) {
    const Completion completion{.work_id = receives_.head().work_id,
                                .status = CompletionStatus::flushed,
                                .opcode = CompletionOpcode::receive,
                                .reason = Reason::flushed,
                                .qpn = qpn_};
    receives_.pop();
    log(LogLevel::info, "QP {:#08x} receive WR {:#x}: WR_FLUSH_ERR ({}: {})", qpn_.value, completion.work_id,
        describe(Reason::flushed).name, describe(Reason::flushed).meaning);
    setup_.receive_cq.push(completion, *this, WorkQueueKind::receive, receives_.consumed());
  }
}

}  // namespace verbatim::model
