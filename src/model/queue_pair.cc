#include "model/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/undo.h"
#include "local/revocation.h"
#include "model/introduction_error.h"
#include "model/xrc_domain.h"

namespace verbatim::model {
namespace {

constexpr uint32_t kPsnLimit = 1u << 24;
constexpr uint8_t kTimerLimit = 32;
constexpr uint8_t kRetryLimit = 8;
// Also those that only say what memory is like: programs give a queue pair what they gave their regions.
constexpr uint32_t kKnownAccess = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead |
                                  access::kRemoteAtomic | access::kWindowBind | access::kOnDemand | access::kHugeTlb |
                                  access::kFlushGlobal | access::kFlushPersistent | access::kOptional;

bool fits(const QueuePairCapabilities& wanted, const DeviceAttributes& limits) {
  const auto requests = static_cast<uint32_t>(limits.max_qp_wr);
  const auto sges = static_cast<uint32_t>(limits.max_sge);
  return wanted.max_send_wr <= requests && wanted.max_recv_wr <= requests && wanted.max_send_sge <= sges &&
         wanted.max_recv_sge <= sges && wanted.max_inline_data <= limits.max_inline_data;
}

bool may_be_reached(QueuePairState state) {
  return state == QueuePairState::rtr || state == QueuePairState::rts || state == QueuePairState::sqd ||
         state == QueuePairState::sqe;
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

// Which objects a queue pair of the type is made with.
bool is_complete(const QueuePairSetup& setup) {
  switch (setup.type) {
    case QueuePairType::rc:
    case QueuePairType::uc:
    case QueuePairType::ud:
      return setup.pd && setup.send_cq && setup.receive_cq && !setup.xrc_domain &&
             !(setup.shared_receives && setup.shared_receives->xrc_domain());
    case QueuePairType::xrc_send:
      return setup.pd && setup.send_cq && !setup.shared_receives && !setup.xrc_domain;
    case QueuePairType::xrc_receive:
      return setup.xrc_domain && !setup.shared_receives;
  }
  return false;
}

// What the type has no use for is left out, so that it is neither held nor counted. Inline data may be as long as the
// SGEs of a request are in an adapter's queue: programs send 16 bytes inline without having asked for them.
QueuePairSetup tailored(QueuePairSetup setup) {
  constexpr uint32_t kSgeBytes = 16;
  QueuePairCapabilities& capabilities = setup.capabilities;
  capabilities.max_inline_data = std::max(capabilities.max_inline_data, capabilities.max_send_sge * kSgeBytes);
  if (setup.type == QueuePairType::xrc_send) {
    setup.receive_cq = nullptr;
    setup.capabilities.max_recv_wr = setup.capabilities.max_recv_sge = 0;
  }
  if (setup.type == QueuePairType::xrc_receive) {
    setup.pd = nullptr;
    setup.send_cq = setup.receive_cq = nullptr;
    setup.capabilities = {};
  }
  if (setup.shared_receives) setup.capabilities.max_recv_wr = setup.capabilities.max_recv_sge = 0;
  return setup;
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(Device& device, AsyncEvents& events, const Setup& setup) {
  if (!is_complete(setup) || !fits(setup.capabilities, device.attributes())) return Status{EINVAL};
  if (!device.qps.take(device.attributes().max_qp)) return Status{ENOMEM};
  Undo taken([&] { device.qps.give_back(); });
  Result<Qpn> qpn = device.adapter().allocate_qpn();
  if (!qpn.ok()) return qpn.status();
  Undo allocated([&] { device.adapter().release_qpn(qpn.value()); });
  std::unique_ptr<QueuePair> queue_pair(new QueuePair(device, events, tailored(setup), qpn.value()));
  taken.keep();
  allocated.keep();
  device.add(*queue_pair);
  return queue_pair;
}

QueuePair::QueuePair(Device& device, AsyncEvents& events, const Setup& setup, Qpn qpn)
    : core_{.device = device, .events = events, .queue_pair = *this, .setup = setup, .qpn = qpn},
      requester_(core_),
      responder_(core_) {
  if (setup.pd) setup.pd->add_user();
  if (setup.send_cq) setup.send_cq->add_user();
  if (setup.receive_cq) setup.receive_cq->add_user();
  if (setup.shared_receives) setup.shared_receives->add_user();
  if (setup.xrc_domain) setup.xrc_domain->add_user();
  publish();
}

QueuePair::~QueuePair() {
  const Setup& setup = core_.setup;
  core_.device.remove(*this);
  {
    std::lock_guard lock(mutex_);
    reset();
    publish();
  }
  if (setup.send_cq) setup.send_cq->remove_feeder(*this);
  // Its receives have completed to the queues of those shared receive queues that its messages named.
  if (setup.xrc_domain) core_.device.purge_everywhere(*this);
  core_.device.windows().forget(core_.qpn);
  local::settle_queue_pair(core_.device.adapter(), core_.device.peers(), core_.device.clock(), core_.qpn);
  silence();
  core_.device.adapter().release_qpn(core_.qpn);
  if (setup.xrc_domain) setup.xrc_domain->remove_user();
  if (setup.shared_receives) setup.shared_receives->remove_user();
  if (setup.receive_cq) setup.receive_cq->remove_user();
  if (setup.send_cq) setup.send_cq->remove_user();
  if (setup.pd) setup.pd->remove_user();
  core_.device.qps.give_back();
}

void QueuePair::silence() {
  {
    std::lock_guard lock(mutex_);
    if (core_.silent) return;
    core_.silent = true;
  }
  core_.events.retire(core_.acknowledgement);
}

// ---- state ----

Status QueuePair::modify(const QueuePairAttributes& wanted, uint32_t mask) {
  mask = meaningful(core_.setup.type, mask);
  bool narrowed = false;
  // An adapter's acknowledgements do not wait until somebody polls: what was answered before counts.
  if ((mask & attribute::kState) && wanted.state == QueuePairState::err) core_.device.hear_answers();
  {
    std::lock_guard lock(mutex_);
    const QueuePairState from = state();
    const QueuePairState to = mask & attribute::kState ? wanted.state : from;
    if ((mask & attribute::kCurrentState) && wanted.current_state != from) return {EINVAL};
    if (Status status = check_transition(core_.setup.type, from, to, mask); !status.ok()) return status;
    if (Status status = check_values(wanted, mask); !status.ok()) return status;
    if (mask & attribute::kAddress) {
      // In SQD the way may change, and the peer's number stays.
      const Qpn destination = mask & attribute::kDestination ? wanted.destination : core_.attributes.destination;
      if (Status status = connect(wanted.address, destination); !status.ok()) return status;
    }
    // Its senders find it by its number alone. Without an agent those of this process do.
    if (core_.is(QueuePairType::ud) && to == QueuePairState::rtr) {
      const Status shown = introduction_error(core_.device.peers().appear());
      if (!shown.ok() && shown.error != EHOSTUNREACH) return shown;
    }
    owes_drained_event_ = to == QueuePairState::sqd && (mask & attribute::kSqdNotify) && wanted.notify_drained;
    narrowed = may_be_reached(from) && (!may_be_reached(to) || (mask & (attribute::kAccess | attribute::kAddress)));
    apply(wanted, mask);
    if (to == QueuePairState::reset) {
      reset();
    } else if (to == QueuePairState::err) {
      enter_error();
    } else {
      responder_.set_state(to);
    }
    publish();
    run();
    log(LogLevel::trace, "QP {:#08x}: {} to {}", core_.qpn.value, name(from), name(to));
  }
  // Not under the lock: a peer in the middle of an operation is waited for.
  if (narrowed) local::settle_queue_pair(core_.device.adapter(), core_.device.peers(), core_.device.clock(), core_.qpn);
  return Status::success();
}

Status QueuePair::check_values(const QueuePairAttributes& wanted, uint32_t mask) const {
  using namespace attribute;
  const DeviceAttributes& limits = core_.device.attributes();
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

Status QueuePair::connect(const AddressVector& address, Qpn destination) {
  const auto refuse = [&](int error, Reason reason, const std::string& detail) {
    log(LogLevel::warn, "QP {:#08x}: modify refused, {} ({}: {})", core_.qpn.value, detail, describe(reason).name,
        describe(reason).meaning);
    return Status{error};
  };
  if (address.port != model::kPort) return {EINVAL};
  if (!address.is_global) return refuse(EINVAL, Reason::no_global_route, "the address has no GRH");
  const std::optional<GidEntry> own = core_.device.gid_at(address.sgid_index);
  if (!own || own->empty()) return {EINVAL};
  if (!core_.device.is_local(address.dgid))
    return refuse(EHOSTUNREACH, Reason::not_this_host, "GID " + address.dgid.text() + " is not here");
  const Status connected =
      requester_.connect({core_.qpn, destination, core_.pd(), own->gid, address.dgid, core_.is_reliable()});
  if (connected.ok()) return connected;
  return refuse(introduction_error(connected).error, Reason::no_agent,
                "nobody can introduce the owner of the peer QP: " + std::string(strerrordesc_np(connected.error)));
}

void QueuePair::apply(const QueuePairAttributes& wanted, uint32_t mask) {
  using namespace attribute;
  const auto take = [&](uint32_t bit, auto QueuePairAttributes::*field) {
    if (mask & bit) core_.attributes.*field = wanted.*field;
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
  if (mask & kReceivePsn) core_.attributes.receive_psn = wanted.receive_psn % kPsnLimit;
  if (mask & kSendPsn) core_.attributes.send_psn = wanted.send_psn % kPsnLimit;
}

QueuePairAttributes QueuePair::query() {
  std::lock_guard lock(mutex_);
  // Who was told that the queue broke, and looks, must not be faster than the engine.
  follow_completion_queues();
  QueuePairAttributes result = core_.attributes;
  result.state = result.current_state = state();
  return result;
}

void QueuePair::publish() {
  const local::LocalEndpoint::Path& path = requester_.path();
  const SharedReceiveQueue* const shared = core_.setup.shared_receives;
  local::Adapter& adapter = core_.device.adapter();
  adapter.publish({.qpn = core_.qpn,
                   .state = static_cast<uint32_t>(state()),
                   .access = core_.attributes.access,
                   .pd = core_.pd(),
                   .peer = path.peer,
                   .responder_depth = core_.attributes.responder_depth,
                   .type = static_cast<uint32_t>(core_.setup.type),
                   .min_rnr_timer = core_.attributes.min_rnr_timer,
                   .receive_count = shared ? shared->receive_count() : adapter.receive_count_of(core_.qpn),
                   .stream = requester_.stream(),
                   .own_gid = path.own_gid,
                   .peer_gid = path.peer_gid});
}

void QueuePair::reset() {
  // Before the queues are cleared: until it is purged, who polls a CQ retires requests of the time before.
  responder_.clear([this] {
    if (core_.setup.send_cq) core_.setup.send_cq->purge(*this);
    if (core_.setup.receive_cq) core_.setup.receive_cq->purge(*this);
  });
  requester_.clear();
  core_.attributes = {};
}

void QueuePair::enter_error() {
  const bool was_in_error = state() == QueuePairState::err;
  responder_.set_state(QueuePairState::err);
  publish();
  requester_.flush();
  responder_.flush();
  // Nothing of this queue pair takes receives from the shared queue any more.
  if (core_.setup.shared_receives && !was_in_error) core_.raise(AsyncEventType::last_work_request_reached);
}

void QueuePair::on_failure() {
  if (core_.is_reliable()) {
    enter_error();
    return;
  }
  responder_.set_state(QueuePairState::sqe);
  publish();
  requester_.flush();
}

bool QueuePair::on_notice(const local::Peer& from, const local::NoticeFields& notice) {
  std::lock_guard lock(mutex_);
  if (notice.source != requester_.path().peer || !may_be_reached(state())) return true;
  const std::shared_ptr<local::Peer> owner = core_.device.peers().owner(notice.source.slot());
  if (!owner) return false;
  if (owner.get() != &from || notice.stream != requester_.stream()) return true;
  const auto kind = static_cast<local::NoticeKind>(notice.kind);
  log(LogLevel::warn, "QP {:#08x}: its peer QP {:#08x} of process {} was refused an operation here; going to ERR ({})",
      core_.qpn.value, notice.source.value, from.pid(), describe(Reason::refused_by_peer).name);
  enter_error();
  core_.raise(event_of(kind));
  return true;
}

// ---- work ----

void QueuePair::follow_completion_queues() {
  const auto broken = [](const CompletionQueue* queue) { return queue && queue->broken(); };
  if (may_be_reached(state()) && (broken(core_.setup.send_cq) || broken(core_.setup.receive_cq))) enter_error();
}

void QueuePair::on_broken_queue() {
  std::lock_guard lock(mutex_);
  follow_completion_queues();
}

void QueuePair::run() {
  follow_completion_queues();
  if (!requester_.run(local::kSliceBytes)) on_failure();
  if (state() == QueuePairState::err || state() == QueuePairState::sqe) requester_.flush();
  if (!feeding_ && requester_.backlog() != Backlog::none) {
    feeding_ = true;
    core_.setup.send_cq->add_feeder(*this);
  }
  if (owes_drained_event_) report_drained();
}

void QueuePair::report_drained() {
  if (state() == QueuePairState::sqd && requester_.is_amid_message()) return;
  owes_drained_event_ = false;
  if (state() == QueuePairState::sqd) core_.raise(AsyncEventType::send_queue_drained);
}

Backlog QueuePair::carry_on() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // Whoever holds it is posting, and so carries on.
  if (!lock.owns_lock()) return Backlog::waiting;
  run();
  const Backlog backlog = requester_.backlog();
  if (backlog == Backlog::none) feeding_ = false;
  return backlog;
}

void QueuePair::retire(WorkQueueKind kind, uint64_t count) {
  if (kind == WorkQueueKind::send)
    requester_.retire(count);
  else
    responder_.retire(count);
}

Status QueuePair::post_receive(const ReceiveWork& work) { return responder_.post(work); }

void QueuePair::forget(const SharedReceiveQueue& shared) {
  std::lock_guard lock(mutex_);
  responder_.forget(shared);
}

std::optional<local::ReplyFields> QueuePair::serve(const local::Request& request) {
  std::lock_guard lock(mutex_);
  if (request.fields().flags & local::lane_flag::kResponse) {
    if (!requester_.take_response(request)) on_failure();
    run();
    return local::ReplyFields{.kind = local::ReplyKind::accepted};
  }
  Fatality fatality = Fatality::none;
  const std::optional<local::ReplyFields> reply = responder_.serve(request, fatality);
  if (fatality == Fatality::none) return reply;
  enter_error();
  if (fatality == Fatality::access_error) core_.raise(AsyncEventType::queue_pair_access_error);
  if (fatality == Fatality::request_error) core_.raise(AsyncEventType::queue_pair_request_error);
  if (fatality == Fatality::operation_error) core_.raise(AsyncEventType::queue_pair_fatal);
  return reply;
}

void QueuePair::deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply) {
  std::lock_guard lock(mutex_);
  if (!requester_.deliver(awaiting, reply)) on_failure();
  run();
}

void QueuePair::on_peer_dead() {
  std::lock_guard lock(mutex_);
  requester_.look_after_peer();
  run();
}

}  // namespace verbatim::model
