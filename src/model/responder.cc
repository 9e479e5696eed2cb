#include "model/responder.h"

#include <cerrno>

#include "base/log.h"
#include "base/watched_call.h"
#include "local/null_memory.h"
#include "model/completion_queue.h"

namespace verbatim::model {
namespace {

using local::ReplyFields;
using local::ReplyKind;
using local::Request;
using local::Verdict;

bool accepts_requests(QueuePairState state) {
  return state == QueuePairState::rtr || state == QueuePairState::rts || state == QueuePairState::sqd ||
         state == QueuePairState::sqe;
}

SendOpcode opcode_of(const Request& request) { return static_cast<SendOpcode>(request.fields().opcode); }

bool has_immediate(SendOpcode opcode) {
  return opcode == SendOpcode::send_with_imm || opcode == SendOpcode::rdma_write_with_imm;
}

constexpr uint32_t kDatagramHeader = 40;

ReplyFields refused(CompletionStatus status, Reason reason) {
  return {.kind = ReplyKind::refused, .status = status, .reason = static_cast<uint32_t>(reason)};
}

bool has_flag(const Request& request, uint8_t flag) { return request.fields().flags & flag; }
// Where its bytes belong in the message.
uint64_t offset_of(const Request& request) {
  return has_flag(request, local::lane_flag::kPart) ? request.fields().remote_address : 0;
}

}  // namespace

Responder::Responder(QueuePairCore& core)
    : core_(core),
      receive_count_(core.device.adapter().receive_count_of(core.qpn)),
      receives_(core.setup.shared_receives ? 0 : core.setup.capabilities.max_recv_wr,
                core.setup.shared_receives ? 0 : core.setup.capabilities.max_recv_sge),
      counted_before_(core.device.adapter().receive_count(receive_count_).posted()) {
  publish_receives();
}

// ---- the receive queue ----

Status Responder::post(const ReceiveWork& work) {
  std::lock_guard lock(receive_mutex_);
  const QueuePairState state = core_.state.load(std::memory_order_relaxed);
  if (state == QueuePairState::reset || core_.setup.shared_receives ||
      work.sges.size() > core_.setup.capabilities.max_recv_sge)
    return {EINVAL};
  if (receives_.full()) return {ENOMEM};
  receives_.push(work);
  publish_receives();
  if (state == QueuePairState::err) flush_posted();
  return Status::success();
}

void Responder::publish_receives() {
  core_.device.adapter().receive_count(receive_count_).publish(counted_before_ + receives_.posted(), 0);
}

void Responder::set_state(QueuePairState state) {
  std::lock_guard lock(receive_mutex_);
  core_.state.store(state, std::memory_order_release);  // pairs with QueuePair::state()
}

void Responder::flush() {
  std::lock_guard lock(receive_mutex_);
  // A shared queue's receive is no longer the queue's once a message has taken it.
  if (inbound_.active && inbound_.shared) complete_flushed(inbound_.receive.work_id);
  inbound_.reset();
  flush_posted();
}

void Responder::forget(const SharedReceiveQueue& shared) {
  if (inbound_.shared == &shared) inbound_.reset();
}

void Responder::flush_posted() {
  while (!receives_.empty()) {
    const uint64_t work_id = receives_.head().work_id;
    receives_.pop();
    complete_flushed(work_id);
  }
}

void Responder::complete_flushed(uint64_t work_id) {
  log(LogLevel::info, "QP {:#08x} receive WR {:#x}: WR_FLUSH_ERR ({}: {})", core_.qpn.value, work_id,
      describe(Reason::flushed).name, describe(Reason::flushed).meaning);
  CompletionQueue* const cq = core_.setup.receive_cq ? core_.setup.receive_cq
                              : inbound_.shared      ? inbound_.shared->cq()
                                                     : nullptr;
  if (!cq) return;
  cq->push({.work_id = work_id,
            .status = CompletionStatus::flushed,
            .opcode = CompletionOpcode::receive,
            .reason = Reason::flushed,
            .qpn = core_.qpn},
           core_.queue_pair, WorkQueueKind::receive, receives_.consumed());
}

// ---- requests ----

Responder::Reply Responder::serve(const Request& request, Fatality& fatality) {
  if (!accepts_requests(core_.state.load(std::memory_order_relaxed))) return ReplyFields{.kind = ReplyKind::absent};
  if (core_.is(QueuePairType::ud)) return serve_datagram(request, fatality);
  if (!is_from_peer(request)) return ReplyFields{.kind = ReplyKind::absent};
  const local::RequestFields& fields = request.fields();
  // An unreliable message that lies in the lane as a whole has left its sender, whatever becomes of that.
  if ((core_.is_reliable() || request.is_fetched()) && is_stale(request))
    return ReplyFields{.kind = ReplyKind::skipped};
  const SendOpcode opcode = opcode_of(request);
  if (local::moves_data(opcode) && !local::takes_receive(opcode)) return serve_operation(request, fatality);
  if (fields.flags & local::lane_flag::kFirst) {
    stream_ = fields.stream;
    expected_ = fields.number;
  }
  if (core_.is_reliable() && (fields.stream != stream_ || fields.number != expected_))
    return ReplyFields{.kind = ReplyKind::skipped};
  note_first_message();
  const Reply reply =
      local::takes_receive(opcode) ? serve_message(request, fatality) : serve_operation(request, fatality);
  if (reply && reply->kind == ReplyKind::accepted && expected_ && !has_flag(request, local::lane_flag::kMore))
    ++*expected_;
  return reply;
}

bool Responder::is_from_peer(const Request& request) {
  const local::PeerTable& peers = core_.device.peers();
  const KnownSender sender{request.from().incarnation(), request.fields().source, peers.generation()};
  if (sender.queue_pair != core_.attributes.destination) return false;
  if (sender == sender_) return true;
  if (!peers.was_last_owner(sender.queue_pair.slot(), request.from())) return false;
  sender_ = sender;
  return true;
}

void Responder::know_sender(const Request& request) {
  const Incarnation process = request.from().incarnation();
  if (source_process_ == process) return;
  source_process_ = process;
  source_ = {};
  fetched_region_ = mapped_region_ = {};
  mapping_.reset();
}

const local::QueuePairFields* Responder::source_of(const Request& request) {
  know_sender(request);
  return request.from().view().refresh(request.fields().source, source_) ? &source_.fields : nullptr;
}

bool Responder::is_stale(const Request& request) {
  const local::QueuePairFields* const source = source_of(request);
  // One that is gone meant what it sent before.
  return source && source->stream != request.fields().stream;
}

void Responder::note_first_message() {
  if (established_) return;
  established_ = true;
  if (core_.state.load(std::memory_order_relaxed) == QueuePairState::rtr)
    core_.raise(AsyncEventType::communication_established);
}

Responder::Reply Responder::serve_message(const Request& request, Fatality& fatality) {
  if (!is_begun(request)) {
    if (const Reply reply = offset_of(request) == 0 ? begin(request, fatality) : go_on(request, fatality)) return reply;
  }
  Verdict verdict;
  switch (inbound_.offset < inbound_.length ? place(request, verdict) : Placing::done) {
    case Placing::done:
    case Placing::interrupted:
      break;
    case Placing::source_unreachable:
      inbound_.position = Inbound::kNone;
      return ReplyFields{.kind = ReplyKind::unreachable};
    case Placing::receive_bad:
      fatality = Fatality::quiet;
      return refuse(request, verdict, CompletionStatus::remote_operation_error, Reason::remote_receive_bad);
    case Placing::source_bad:
      // The sender's error alone: the receive is still there.
      inbound_.position = Inbound::kNone;
      log(LogLevel::info, "QP {:#08x}: a message could not be fetched ({}: {}{}{})", core_.qpn.value,
          describe(verdict.reason).name, describe(verdict.reason).meaning, verdict.detail.empty() ? "" : "; ",
          verdict.detail);
      return refused(verdict.status, verdict.reason);
  }
  if (inbound_.offset < inbound_.length) return std::nullopt;
  if (has_flag(request, local::lane_flag::kMore)) return ReplyFields{.kind = ReplyKind::accepted};
  return end(request, fatality);
}

bool Responder::is_begun(const Request& request) const {
  return inbound_.active && inbound_.position == request.position() && inbound_.from == request.from().incarnation();
}

SharedReceiveQueue* Responder::shared_queue_for(const Request& request) const {
  if (!core_.is(QueuePairType::xrc_receive)) return core_.setup.shared_receives;
  SharedReceiveQueue* const shared = core_.device.shared_receives_in_turn(request.fields().shared_queue);
  return shared && shared->xrc_domain() == core_.setup.xrc_domain ? shared : nullptr;
}

bool Responder::take_receive(SharedReceiveQueue* shared) {
  // What an earlier message of this queue pair took and could not use.
  if (inbound_.active && inbound_.shared == shared) return true;
  // This one is for another queue, and nobody else will complete it.
  if (inbound_.active && inbound_.shared) complete_flushed(inbound_.receive.work_id);
  inbound_.reset(shared ? shared->pd() : core_.pd(), shared);
  if (shared) {
    inbound_.active = shared->take(inbound_.receive);
    return inbound_.active;
  }
  if (receives_.empty()) return false;
  const ReceiveWork& head = receives_.head();
  inbound_.receive.work_id = head.work_id;
  inbound_.receive.count = static_cast<uint32_t>(head.sges.size());
  std::copy(head.sges.begin(), head.sges.end(), inbound_.receive.sges.begin());
  inbound_.active = true;
  return true;
}

Responder::Reply Responder::begin(const Request& request, Fatality& fatality) {
  const local::RequestFields& fields = request.fields();
  const bool placed = opcode_of(request) == SendOpcode::rdma_write_with_imm;
  if (placed && !(core_.attributes.access & access::kRemoteWrite)) {
    if (!core_.is_reliable()) return drop(request, Reason::remote_operation_off);
    fatality = Fatality::request_error;
    return refused(CompletionStatus::remote_invalid_request, Reason::remote_operation_off);
  }
  SharedReceiveQueue* const shared = shared_queue_for(request);
  if (core_.is(QueuePairType::xrc_receive) && !shared) {
    fatality = Fatality::request_error;
    return refused(CompletionStatus::remote_invalid_request, Reason::remote_no_shared_queue);
  }
  if (!take_receive(shared)) {
    if (!core_.is_reliable()) return drop(request, Reason::dropped_no_receive);
    return ReplyFields{.kind = ReplyKind::not_ready, .value = counted_before_ + receives_.consumed()};
  }
  inbound_.from = request.from().incarnation();
  inbound_.position = request.position();
  inbound_.number = fields.number;
  inbound_.fetched_by_kernel = false;
  inbound_.invalidation.reset();
  inbound_.length = placed ? fields.remote_address : fields.length;
  inbound_.offset = placed ? inbound_.length : 0;
  return placed ? std::nullopt : check_length(request, fatality);
}

Responder::Reply Responder::go_on(const Request& request, Fatality& fatality) {
  const bool follows = inbound_.active && inbound_.from == request.from().incarnation() &&
                       inbound_.number == request.fields().number && inbound_.offset == offset_of(request);
  // Its beginning was not accepted.
  if (!follows) return ReplyFields{.kind = ReplyKind::skipped};
  inbound_.position = request.position();
  inbound_.length = inbound_.offset + request.fields().length;
  return check_length(request, fatality);
}

Responder::Reply Responder::check_length(const Request& request, Fatality& fatality) {
  if (inbound_.length > capacity({.sges = inbound_.receive.pieces()})) return refuse_long(request, fatality);
  Verdict verdict;
  if (check_receive(inbound_.length, verdict)) return std::nullopt;
  fatality = Fatality::quiet;
  return refuse(request, verdict, CompletionStatus::remote_operation_error, Reason::remote_receive_bad);
}

Responder::Reply Responder::refuse_long(const Request& request, Fatality& fatality) {
  if (!core_.is_reliable() && !inbound_.shared) {
    inbound_.position = Inbound::kNone;
    return drop(request, Reason::dropped_too_long);
  }
  // Also by an unreliable message: what was taken from a shared queue cannot be put back.
  Verdict verdict;
  local::decide(verdict, CompletionStatus::local_length_error, Reason::receive_too_short,
                "the message has {} bytes, the receive {}", inbound_.length,
                capacity({.sges = inbound_.receive.pieces()}));
  fatality = Fatality::quiet;
  return refuse(request, verdict, CompletionStatus::remote_invalid_request, Reason::remote_receive_too_short);
}

Responder::Reply Responder::end(const Request& request, Fatality& fatality) {
  // Whoever destroyed the sender meanwhile may have freed what was fetched.
  if (request.is_fetched() && !is_still_meant(request)) {
    inbound_.position = Inbound::kNone;
    return ReplyFields{.kind = ReplyKind::skipped};
  }
  if (opcode_of(request) == SendOpcode::send_with_invalidate && !inbound_.invalidation) {
    local::Revocation revocation;
    Verdict verdict =
        core_.device.windows().invalidate(inbound_.pd, core_.qpn, MemoryKey{request.fields().immediate}, revocation);
    if (verdict.status != CompletionStatus::success) {
      verdict.status = CompletionStatus::local_protection_error;
      fatality = Fatality::access_error;
      return refuse(request, verdict, CompletionStatus::remote_access_error, Reason::not_invalidatable);
    }
    inbound_.invalidation = std::move(revocation);
  }
  if (inbound_.invalidation && !inbound_.invalidation->is_over()) return std::nullopt;
  const ReplyFields reply = accepted();
  request.answer(reply);
  complete(request, CompletionStatus::success, Reason::none);
  return reply;
}

ReplyFields Responder::accepted() const {
  // Its own receive waits yet.
  const uint64_t credits = inbound_.shared ? 0 : receives_.waiting() - 1;
  return {.kind = ReplyKind::accepted,
          .credits = static_cast<uint16_t>(std::min<uint64_t>(credits, UINT16_MAX)),
          .value = inbound_.fetched_by_kernel};
}

bool Responder::is_still_meant(const Request& request) {
  const local::QueuePairFields* const source = source_of(request);
  if (!source) return false;
  const auto state = static_cast<QueuePairState>(source->state);
  return (state == QueuePairState::rts || state == QueuePairState::sqd) && source->peer == core_.qpn;
}

void Responder::complete(const Request& request, CompletionStatus status, Reason reason) {
  const local::RequestFields& fields = request.fields();
  const SendOpcode opcode = opcode_of(request);
  const bool datagram = core_.is(QueuePairType::ud);
  const Completion completion{
      .work_id = inbound_.receive.work_id,
      .status = status,
      .opcode = opcode == SendOpcode::rdma_write_with_imm ? CompletionOpcode::receive_rdma_with_imm
                                                          : CompletionOpcode::receive,
      .reason = reason,
      .byte_length = static_cast<uint32_t>(inbound_.length),
      .qpn = core_.qpn,
      .immediate = fields.immediate,
      .source = fields.source,
      .flags = (has_immediate(opcode) ? completion_flag::kImmediate : 0) |
               (opcode == SendOpcode::send_with_invalidate ? completion_flag::kInvalidated : 0) |
               (datagram ? completion_flag::kGlobalRoute : 0),
      .service_level = fields.service_level,
      .solicited = (fields.flags & local::lane_flag::kSolicited) != 0};
  CompletionQueue* const cq = inbound_.shared && inbound_.shared->cq() ? inbound_.shared->cq() : core_.setup.receive_cq;
  if (!inbound_.shared) receives_.pop();
  inbound_.reset();
  cq->push(completion, core_.queue_pair, WorkQueueKind::receive, receives_.consumed());
}

Responder::Reply Responder::refuse(const Request& request, const Verdict& own, CompletionStatus remote,
                                   Reason remote_reason) {
  log(LogLevel::warn, "QP {:#08x} receive WR {:#x}: {} ({}: {}{}{})", core_.qpn.value, inbound_.receive.work_id,
      name(own.status), describe(own.reason).name, describe(own.reason).meaning, own.detail.empty() ? "" : "; ",
      own.detail);
  const ReplyFields reply = refused(remote, remote_reason);
  request.answer(reply);
  complete(request, own.status, own.reason);
  return reply;
}

Responder::Reply Responder::drop(const Request& request, Reason reason) {
  log(LogLevel::info, "QP {:#08x}: a message of QP {:#08x} is dropped ({}: {})", core_.qpn.value,
      request.fields().source.value, describe(reason).name, describe(reason).meaning);
  core_.device.count_dropped_message();
  return ReplyFields{.kind = ReplyKind::accepted};
}

Responder::Reply Responder::serve_datagram(const Request& request, Fatality& fatality) {
  const local::RequestFields& fields = request.fields();
  if (fields.length < kDatagramHeader || request.is_fetched() || has_flag(request, local::lane_flag::kPart))
    return drop(request, Reason::dropped_no_peer);
  if (fields.key != core_.attributes.qkey) return drop(request, Reason::dropped_qkey);
  if (!take_receive(core_.setup.shared_receives)) return drop(request, Reason::dropped_no_receive);
  inbound_.length = fields.length;
  inbound_.offset = 0;
  if (inbound_.length > capacity({.sges = inbound_.receive.pieces()})) return refuse_long(request, fatality);
  note_first_message();
  Verdict verdict;
  if (!check_receive(inbound_.length, verdict) || place(request, verdict) != Placing::done) {
    fatality = Fatality::quiet;
    return refuse(request, verdict, CompletionStatus::success, Reason::none);
  }
  complete(request, CompletionStatus::success, Reason::none);
  return ReplyFields{.kind = ReplyKind::accepted};
}

// ---- data ----

uint8_t* Responder::receive_address(uint64_t offset, uint64_t& length, Verdict& verdict) {
  for (const Sge& sge : inbound_.receive.pieces()) {
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    uint8_t* const start = local::locate(core_.device.adapter(), sge, inbound_.pd, true, receive_region_, verdict);
    length = sge.length - offset;
    return !start || local::is_null_memory(start) ? start : start + offset;
  }
  return nullptr;
}

bool Responder::check_receive(uint64_t length, Verdict& verdict) {
  for (uint64_t offset = 0; offset < length;) {
    uint64_t together = 0;
    if (!receive_address(offset, together, verdict)) return false;
    offset += together;
  }
  return true;
}

Responder::Placing Responder::place(const Request& request, Verdict& verdict) {
  return request.is_fetched() ? place_from_sender(request, verdict) : place_from_lane(request, verdict);
}

Responder::Placing Responder::place_from_lane(const Request& request, Verdict& verdict) {
  local::Adapter& adapter = core_.device.adapter();
  const local::TouchRecords::Guard touch(adapter.touch_records(), core_.qpn.index(),
                                         {core_.qpn, local::TouchTarget::kNoRegion},
                                         adapter.view().revokes_by_membarrier());
  const std::span<const uint8_t> payload = request.payload();
  const uint64_t start = offset_of(request);
  while (inbound_.offset < inbound_.length && inbound_.offset - start < payload.size()) {
    uint64_t length = 0;
    uint8_t* const to = receive_address(inbound_.offset, length, verdict);
    if (!to) return Placing::receive_bad;
    length = std::min(length, inbound_.length - inbound_.offset);
    CopyFault fault;
    if (!guarded_copy(to, payload.data() + (inbound_.offset - start), length, &fault))
      return receive_gone(fault.address, verdict);
    inbound_.offset += length;
  }
  return Placing::done;
}

Responder::Placing Responder::place_from_sender(const Request& request, Verdict& verdict) {
  request.expect_next();
  Placing placing;
  // Who was interrupted looks at everything again and goes on.
  do placing = fetch_slice(request, verdict);
  while (placing == Placing::interrupted);
  return placing;
}

Responder::Placing Responder::fetch_slice(const Request& request, Verdict& verdict) {
  local::Adapter& adapter = core_.device.adapter();
  std::array<Sge, local::kMaxSges> sources;
  const std::span<const uint8_t> list = request.payload();
  std::memcpy(sources.data(), list.data(), list.size());
  uint64_t skip = inbound_.offset;
  for (uint32_t i = 0; i < request.fields().pieces; ++i) {
    if (skip >= sources[i].length) {
      skip -= sources[i].length;
      continue;
    }
    const local::SegmentView& from = request.from().view();
    // Both ends' revocations wait for it: this process's for any operation of its own, the sender's for this region.
    local::TouchRecords::Guard touch(
        adapter.touch_records(), core_.qpn.index(), {request.fields().source, from.entry_index(sources[i].lkey)},
        adapter.view().revokes_by_membarrier() && from.revokes_by_membarrier(), local::Interrupted::turns_back);
    uint64_t length = 0;
    uint8_t* const to = receive_address(inbound_.offset, length, verdict);
    if (!to) return Placing::receive_bad;
    length = std::min({length, sources[i].length - skip, local::kSliceBytes, inbound_.length - inbound_.offset});
    return fetch(request, sources[i], skip, touch, to, length, verdict);
  }
  local::decide(verdict, CompletionStatus::local_length_error, Reason::message_too_long,
                "the list of its SGEs is shorter than it says");
  return Placing::source_bad;
}

Responder::Placing Responder::receive_gone(const void* address, Verdict& verdict) {
  local::decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone,
                "there is no memory at {}", address);
  return Placing::receive_bad;
}

Responder::Placing Responder::fetch(const Request& request, const Sge& source, uint64_t skip,
                                    local::TouchRecords::Guard& touch, uint8_t* to, uint64_t length, Verdict& verdict) {
  know_sender(request);
  const local::SegmentView& view = request.from().view();
  const local::RegionFields& region = fetched_region_.fields;
  if (!view.refresh(source.lkey, fetched_region_) ||
      !local::contains(region.iova, region.length, source.address, source.length)) {
    local::decide(verdict, CompletionStatus::local_protection_error, Reason::local_key_unknown,
                  "lkey {:#x} does not cover its SGE any more", source.lkey.value);
    return Placing::source_bad;
  }
  const uint64_t into_region = source.address - region.iova + skip;
  if (const uint8_t* const data = fetched_data(request, into_region))
    return fetch_directly(view, source, data, to, length, verdict);
  return fetch_by_kernel(request, source, region.address + into_region, touch, to, length, verdict);
}

const uint8_t* Responder::fetched_data(const Request& request, uint64_t into_region) {
  const local::RegionFields& region = fetched_region_.fields;
  if (region.kind == local::RegionKind::null) return local::null_source();
  if (request.from().is_self()) return reinterpret_cast<const uint8_t*>(region.address + into_region);
  if (!mapped_region_.is_as(fetched_region_)) {
    mapping_ = request.from().mapping(region);
    mapped_region_ = fetched_region_;
  }
  return mapping_ ? mapping_->data() + into_region : nullptr;
}

Responder::Placing Responder::fetch_directly(const local::SegmentView& view, const Sge& source, const uint8_t* data,
                                             uint8_t* to, uint64_t length, Verdict& verdict) {
  watch(kCopySequence);
  if (!view.is_still(fetched_region_)) return Placing::interrupted;
  size_t copied = 0;
  CopyFault fault;
  if (interruptible_copy(to, data, length, &copied, &fault) != CopyEnd::fault) {
    inbound_.offset += copied;
    return copied == length ? Placing::done : Placing::interrupted;
  }
  const auto* where = static_cast<const uint8_t*>(fault.address);
  return where >= to && where < to + length ? receive_gone(where, verdict) : source_gone(source, verdict);
}

Responder::Placing Responder::fetch_by_kernel(const Request& request, const Sge& source, uint64_t remote,
                                              local::TouchRecords::Guard& touch, uint8_t* to, uint64_t length,
                                              Verdict& verdict) {
  const iovec piece{to, length};
  const bool last = inbound_.offset + length == inbound_.length;
  touch.enter_kernel();
  watch(kCallSequence);
  if (!request.from().view().is_still(fetched_region_)) return Placing::interrupted;
  const auto outcome = request.from().memory().read({&piece, 1}, remote, length, last);
  switch (outcome.result) {
    case local::ProcessMemory::Result::done:
      inbound_.fetched_by_kernel = true;
      inbound_.offset += outcome.moved;
      return outcome.moved == length ? Placing::done : Placing::interrupted;
    case local::ProcessMemory::Result::local_fault:
      return receive_gone(to, verdict);
    case local::ProcessMemory::Result::forbidden:
      return Placing::source_unreachable;
    case local::ProcessMemory::Result::remote_fault:
    case local::ProcessMemory::Result::dead:
      break;
  }
  return source_gone(source, verdict);
}

Responder::Placing Responder::source_gone(const Sge& source, Verdict& verdict) {
  local::decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone,
                "there is no memory behind lkey {:#x}", source.lkey.value);
  return Placing::source_bad;
}

// ---- operations on memory that only this process can reach ----

Responder::Reply Responder::serve_operation(const Request& request, Fatality& fatality) {
  const local::RequestFields& fields = request.fields();
  const auto refuse_request = [&](CompletionStatus status, Reason reason, Fatality how) {
    // An unreliable one is just lost.
    if (core_.is_reliable()) fatality = how;
    return refused(status, reason);
  };
  const std::span<const uint8_t> payload = request.payload();
  SendWork work{.opcode = opcode_of(request), .rkey = {fields.key}, .remote_address = fields.remote_address};
  const bool is_word = local::is_atomic(work.opcode) || work.opcode == SendOpcode::atomic_write;
  const bool reads = local::is_atomic(work.opcode) || work.opcode == SendOpcode::rdma_read;
  if (is_word)
    work.length = sizeof(uint64_t);
  else
    work.length = work.opcode == SendOpcode::rdma_read ? fields.immediate : payload.size();
  const bool sound = !request.is_fetched() && work.length <= local::kPartBytes &&
                     (is_word ? payload.size() >= sizeof(uint64_t) : local::moves_data(work.opcode));
  const uint32_t right = local::right_needed(work.opcode);
  if (!sound || !(core_.attributes.access & right))
    return refuse_request(CompletionStatus::remote_invalid_request, Reason::remote_operation_off,
                          Fatality::request_error);
  if (reads && core_.attributes.responder_depth == 0)
    return refuse_request(CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth,
                          Fatality::request_error);
  if (is_word && work.remote_address % sizeof(uint64_t) != 0)
    return refuse_request(CompletionStatus::remote_invalid_request, Reason::remote_unaligned_atomic,
                          Fatality::request_error);
  local::Adapter& adapter = core_.device.adapter();
  // Names the entry: who takes a window away waits for what goes through it, whoever executes it.
  const local::TouchRecords::Guard touch(adapter.touch_records(), core_.qpn.index(),
                                         {core_.qpn, adapter.view().entry_index(work.rkey)},
                                         adapter.view().revokes_by_membarrier());
  // An XRC request acts in the domain of the shared receive queue that it names.
  const SharedReceiveQueue* const shared = core_.is(QueuePairType::xrc_receive) ? shared_queue_for(request) : nullptr;
  Verdict verdict;
  if (!local::find_region(adapter.view(), {.qpn = core_.qpn, .pd = shared ? shared->pd() : core_.pd()}, work,
                          asked_region_, verdict))
    return refuse_request(verdict.status, verdict.reason, Fatality::access_error);
  const local::RegionFields& region = asked_region_.fields;
  auto* const address = reinterpret_cast<uint8_t*>(region.address + (work.remote_address - region.iova));
  const ReplyFields reply = is_word ? change_word(request, work, address) : move(request, work, address);
  if (reply.kind == ReplyKind::refused && core_.is_reliable()) fatality = Fatality::operation_error;
  return reply;
}

ReplyFields Responder::change_word(const Request& request, SendWork& work, uint8_t* address) {
  auto* const word = reinterpret_cast<uint64_t*>(address);
  // The address that peers use may be aligned where the memory behind it is not.
  if (reinterpret_cast<uint64_t>(word) % sizeof(uint64_t) != 0)
    return refused(CompletionStatus::remote_operation_error, Reason::remote_unaligned_atomic);
  const std::span<const uint8_t> payload = request.payload();
  AtomicOperands operands{};
  std::memcpy(&operands, payload.data(), std::min(payload.size(), sizeof operands));
  work.operands = operands;
  uint64_t before = 0;
  CopyFault fault;
  if (!local::execute_atomic(work, word, &before, &fault))
    return refused(CompletionStatus::remote_operation_error, Reason::remote_memory_gone);
  return {.kind = ReplyKind::accepted, .value = before};
}

ReplyFields Responder::move(const Request& request, const SendWork& work, uint8_t* address) {
  CopyFault fault;
  local::LanePost outcome = local::LanePost::shown;
  if (work.opcode == SendOpcode::rdma_read)
    outcome = request.respond({address, work.length}, &fault);
  else if (!guarded_copy(address, request.payload().data(), work.length, &fault))
    outcome = local::LanePost::fault;
  switch (outcome) {
    case local::LanePost::shown:
      return {.kind = ReplyKind::accepted};
    case local::LanePost::full:
      return {.kind = ReplyKind::no_room};
    case local::LanePost::fault:
      break;
  }
  return refused(CompletionStatus::remote_operation_error, Reason::remote_memory_gone);
}

}  // namespace verbatim::model
