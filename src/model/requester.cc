#include "model/requester.h"

#include <cerrno>

#include "base/log.h"
#include "base/random.h"
#include "model/completion_queue.h"
#include "model/introduction_error.h"

namespace verbatim::model {
namespace {

using local::Advance;
using local::Verdict;

CompletionOpcode completion_opcode(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::rdma_write:
    case SendOpcode::rdma_write_with_imm:
      return CompletionOpcode::rdma_write;
    case SendOpcode::rdma_read:
      return CompletionOpcode::rdma_read;
    case SendOpcode::atomic_compare_swap:
      return CompletionOpcode::compare_swap;
    case SendOpcode::atomic_fetch_add:
      return CompletionOpcode::fetch_add;
    case SendOpcode::local_invalidate:
      return CompletionOpcode::local_invalidate;
    case SendOpcode::bind_window:
      return CompletionOpcode::bind_window;
    case SendOpcode::flush:
      return CompletionOpcode::flush;
    case SendOpcode::atomic_write:
      return CompletionOpcode::atomic_write;
    default:
      return CompletionOpcode::send;
  }
}

bool is_send(SendOpcode opcode) {
  return opcode == SendOpcode::send || opcode == SendOpcode::send_with_imm ||
         opcode == SendOpcode::send_with_invalidate;
}

// Whether its receiver reads the sender's memory, if it can.
bool is_fetched(const SendWork& work) { return is_send(work.opcode) && work.length > local::kLaneMessageBytes; }

std::span<const uint8_t> as_bytes(const uint64_t& word) {
  return {reinterpret_cast<const uint8_t*>(&word), sizeof word};
}

// What a peer may say of a request of ours, so that one which lies cannot make a failure look like a success.
Verdict refusal(const local::ReplyFields& reply) {
  switch (reply.status) {
    case CompletionStatus::local_protection_error:
    case CompletionStatus::local_length_error:
    case CompletionStatus::remote_invalid_request:
    case CompletionStatus::remote_access_error:
    case CompletionStatus::remote_operation_error:
      return {reply.status, static_cast<Reason>(reply.reason), {}};
    default:
      return {CompletionStatus::remote_operation_error, Reason::bad_response, {}};
  }
}

bool needs_read_depth(SendOpcode opcode) { return opcode == SendOpcode::rdma_read || local::is_atomic(opcode); }

constexpr uint64_t kAtomicBytes = 8;
constexpr uint32_t kPartsInFlight = 8;
constexpr uint8_t kRetryForEver = 7;
constexpr Duration kForever = Duration::nanoseconds(INT64_MAX);
// For a program to take the completions of what a peer did before it died.
constexpr Duration kLastAnswersPatience = Duration::milliseconds(100);

// The RNR timer's encoding (IBTA volume 1, table 45), in units of 10 us.
constexpr uint32_t kReceiverTimers[] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// Found in the request or in this process's memory, and so an error even where messages may be lost.
bool is_own_error(const Verdict& verdict) {
  switch (verdict.status) {
    case CompletionStatus::local_protection_error:
    case CompletionStatus::local_length_error:
    case CompletionStatus::local_qp_operation_error:
    case CompletionStatus::window_bind_error:
      return true;
    default:
      return false;
  }
}

bool is_introduction_due(Advance outcome, const Verdict& verdict) {
  return outcome == Advance::waiting &&
         (verdict.reason == Reason::peer_unknown || verdict.reason == Reason::dropped_no_peer);
}

uint64_t draw_attempt() {
  // Never the same for two connections of this process, whatever their queue pair numbers.
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Requester::Requester(QueuePairCore& core)
    : core_(core),
      endpoint_(core.device.adapter(), core.device.peers(), core.device.lanes()),
      datagrams_(core.device.adapter(), core.device.peers(), core.device.lanes()),
      sends_(core.setup.capabilities.max_send_wr, core.setup.capabilities.max_send_sge,
             core.setup.capabilities.max_inline_data),
      attempt_(draw_attempt()),
      stream_(static_cast<uint32_t>(random_u64())) {}

Status Requester::enqueue(const SendWork& work) {
  switch (core_.state.load(std::memory_order_acquire)) {
    case QueuePairState::reset:
    case QueuePairState::init:
    case QueuePairState::rtr:
      return {EINVAL};
    default:
      break;
  }
  const QueuePairCapabilities& limits = core_.setup.capabilities;
  if (core_.is(QueuePairType::xrc_receive) || work.sges.size() > limits.max_send_sge) return {EINVAL};
  const bool reads = needs_read_depth(work.opcode);
  if (work.inline_data && (reads || work.length > limits.max_inline_data)) return {EINVAL};
  if (sends_.full()) return {ENOMEM};
  sends_.push(work);
  return Status::success();
}

bool Requester::run(uint64_t budget) {
  hold_ = Hold::nothing;
  while (may_go_on() && budget != 0) {
    switch (step(budget)) {
      case Step::went_on:
        break;
      case Step::waits:
        return true;
      case Step::failed:
        return false;
    }
  }
  return true;
}

bool Requester::may_go_on() const {
  if (!sends_.has_next()) return false;
  const QueuePairState state = core_.state.load(std::memory_order_relaxed);
  // SQD: a message that has begun is finished, the next one waits for RTS.
  return state == QueuePairState::rts || (state == QueuePairState::sqd && sends_.next_has_begun());
}

Backlog Requester::backlog() const {
  if (!may_go_on()) return Backlog::none;
  switch (hold_) {
    case Hold::nothing:
      return Backlog::working;
    case Hold::time:
      return Backlog::waiting;
    case Hold::answer:
      break;
  }
  // It is carried on when the answer comes.
  return Backlog::none;
}

Requester::Step Requester::step(uint64_t& budget) {
  const SendWork& work = sends_.next();
  const bool in_parts = goes_in_parts(work);
  const bool is_message = !in_parts && (is_send(work.opcode) || data_placed_ || by_request_ ||
                                        (work.opcode == SendOpcode::rdma_write_with_imm && work.length == 0));
  // A direct operation never overtakes a message that was not answered, nor does what is fenced.
  if (sends_.in_flight() != 0 && (!is_message || work.fence || awaits_first_fetch())) return hold(Hold::answer);
  if (Verdict verdict; !check(work, verdict)) {
    // Its place among the completions is behind those in flight.
    return sends_.in_flight() != 0 ? hold(Hold::answer) : fail_head(verdict);
  }
  sends_.begin();
  if (core_.is(QueuePairType::ud)) return post_datagram(work);
  if (work.opcode == SendOpcode::bind_window || work.opcode == SendOpcode::local_invalidate) return change_window(work);
  if (in_parts) return post_parts(work);
  return is_message ? post_message(work) : execute_directly(work, budget);
}

bool Requester::goes_in_parts(const SendWork& work) const {
  return parts_ || (fetching_ == Fetching::forbidden && is_fetched(work));
}

bool Requester::awaits_first_fetch() const {
  // An unreliable message that has to be sent anew must not come after later ones.
  return core_.is(QueuePairType::uc) && fetching_ == Fetching::untried && is_fetched(sends_.head());
}

bool Requester::check(const SendWork& work, Verdict& verdict) const {
  const auto refuse = [&](CompletionStatus status, Reason reason) {
    verdict.status = status;
    verdict.reason = reason;
    return false;
  };
  if (!has_operation(core_.setup.type, work.opcode))
    return refuse(CompletionStatus::local_qp_operation_error, Reason::operation_not_for_type);
  if (work.length > core_.device.message_limit())
    return refuse(CompletionStatus::local_length_error, Reason::message_too_long);
  if (local::is_atomic(work.opcode) && work.length != kAtomicBytes)
    return refuse(CompletionStatus::local_length_error, Reason::atomic_length);
  if (needs_read_depth(work.opcode) && core_.attributes.initiator_depth == 0)
    return refuse(CompletionStatus::local_qp_operation_error, Reason::no_read_depth);
  if (core_.is(QueuePairType::ud)) {
    if (work.length > bytes_of(core_.device.port().active_mtu))
      return refuse(CompletionStatus::local_length_error, Reason::datagram_too_long);
    if (work.operands.datagram.address.pd != core_.pd())
      return refuse(CompletionStatus::local_qp_operation_error, Reason::datagram_other_pd);
  }
  return true;
}

Requester::Step Requester::execute_directly(const SendWork& work, uint64_t& budget) {
  const uint64_t before = head_offset_;
  Verdict verdict;
  const Advance outcome = endpoint_.advance(work, head_offset_, verdict);
  budget -= std::min(budget, head_offset_ - before);
  if (outcome == Advance::more) {
    not_ready_.begun = false;
    return Step::went_on;
  }
  if (outcome == Advance::done && work.opcode == SendOpcode::rdma_write_with_imm) {
    data_placed_ = true;
    return Step::went_on;
  }
  return on_outcome(work, outcome, verdict);
}

Requester::Step Requester::change_window(const SendWork& work) {
  WindowTable& windows = core_.device.windows();
  if (!window_change_) {
    local::Revocation revocation;
    const Verdict verdict = work.opcode == SendOpcode::bind_window
                                ? windows.bind(core_.pd(), core_.qpn, work.operands.bind, revocation)
                                : windows.invalidate(core_.pd(), core_.qpn, MemoryKey{work.immediate}, revocation);
    if (verdict.status != CompletionStatus::success) return fail_head(verdict);
    window_change_ = std::move(revocation);
  }
  if (!window_change_->is_over()) return hold(Hold::time);
  window_change_.reset();
  complete_head();
  return Step::went_on;
}

Requester::Step Requester::post_message(const SendWork& work) {
  const local::Envelope envelope{.awaiting = {core_.qpn, attempt_, next_number_},
                                 .stream = stream_,
                                 .first = starts_count_ && sends_.in_flight() == 0,
                                 .receives_used = receives_used_,
                                 .receive_known = credits_ != 0};
  Verdict verdict;
  return on_outcome(work, endpoint_.post(work, envelope, verdict), verdict);
}

Requester::Step Requester::post_parts(const SendWork& work) {
  const bool counted = is_send(work.opcode);
  if (!parts_) begin_parts(0);
  while (head_offset_ != work.length && parts_->in_flight != kPartsInFlight && !parts_->refused) {
    const local::Envelope envelope{.awaiting = {core_.qpn, parts_->attempt, counted ? next_number_ : next_part_},
                                   .stream = stream_,
                                   .first = counted && starts_count_ && head_offset_ == 0,
                                   .receives_used = receives_used_,
                                   .receive_known = receive_taken_};
    Verdict verdict;
    const Advance outcome = endpoint_.post_part(work, envelope, head_offset_, verdict);
    // Those before it are answered first.
    if (outcome != Advance::posted) return parts_->in_flight ? hold(Hold::answer) : on_outcome(work, outcome, verdict);
    ++parts_->in_flight;
    if (!counted) ++next_part_;
    not_ready_.begun = false;
  }
  return hold(Hold::answer);
}

void Requester::begin_parts(uint64_t done) {
  parts_ = {.attempt = draw_attempt(), .done = done, .in_flight = 0, .refused = {}};
  head_offset_ = done;
}

void Requester::withdraw_parts() {
  // Of a message the peer may have forgotten the beginning.
  begin_parts(is_send(sends_.head().opcode) ? 0 : parts_->done);
}

Requester::Step Requester::post_datagram(const SendWork& work) {
  Verdict verdict;
  const Advance outcome = datagrams_.post(work, core_.qpn, core_.attributes.qkey, core_.pd(), verdict);
  return on_outcome(work, outcome, verdict);
}

Requester::Step Requester::on_outcome(const SendWork& work, Advance outcome, const Verdict& verdict) {
  switch (outcome) {
    case Advance::more:
      return Step::went_on;
    case Advance::request:
      if (local::moves_data(work.opcode))
        begin_parts(head_offset_);
      else
        by_request_ = true;
      return Step::went_on;
    case Advance::posted:
      sends_.issue();
      ++next_number_;
      if (local::takes_receive(work.opcode)) use_receive();
      head_offset_ = 0;
      data_placed_ = by_request_ = not_ready_.begun = false;
      // An unreliable message that is in the lane as a whole has left; nobody waits for what becomes of it, unless an
      // earlier one is still being fetched.
      if (core_.is(QueuePairType::uc) && work.length <= local::kLaneMessageBytes && sends_.in_flight() == 1)
        complete_head();
      return Step::went_on;
    case Advance::done:
      complete_head();
      return Step::went_on;
    case Advance::full:
      return hold(Hold::time);
    case Advance::failed:
    case Advance::waiting:
    case Advance::no_receive:
      break;
  }
  // Its place among the completions is behind those in flight.
  if (sends_.in_flight() != 0) return hold(Hold::answer);
  const bool unknown = is_introduction_due(outcome, verdict);
  if (unknown && await_introduction(work)) return hold(Hold::time);
  if (!core_.is_reliable()) {
    if (is_own_error(verdict)) return fail_head(verdict);
    // Who is there and not ready loses what comes.
    if (unknown && core_.is(QueuePairType::ud)) datagrams_.give_up(work.operands.datagram.qpn);
    return lose(work, verdict);
  }
  // A NIC would know a time-out later. Programs that end when they have seen enough successes take some completions at
  // a time, and must not find the error among those.
  if (verdict.reason == Reason::peer_dead && may_have_last_answers() &&
      keep_waiting(last_answers_, kLastAnswersPatience))
    return hold(Hold::time);
  if (outcome == Advance::waiting && !unknown && keep_waiting(not_ready_, not_ready_patience()))
    return hold(Hold::time);
  if (outcome == Advance::no_receive && keep_waiting(no_receive_, receiver_patience())) return hold(Hold::time);
  return fail_head(verdict);
}

bool Requester::may_have_last_answers() const {
  // Those to other queue pairs are read before the table forgets the peer (Device::on_peer_dead).
  return !core_.setup.send_cq->empty() ||
         (endpoint_.peer() && core_.device.peers().knows(endpoint_.peer()->incarnation()));
}

bool Requester::keep_waiting(Wait& wait, Duration patience) {
  const Instant now = core_.device.clock().now();
  if (!wait.begun) wait = {true, patience == kForever ? kNever : now + patience};
  return now < wait.until;
}

bool Requester::await_introduction(const SendWork& work) {
  local::PeerTable& peers = core_.device.peers();
  // Who sends to a group has asked for everyone with the address handle.
  const bool is_datagram = core_.is(QueuePairType::ud);
  const bool is_group = is_datagram && work.operands.datagram.address.destination.is_multicast();
  const Slot slot = (is_datagram ? work.operands.datagram.qpn : core_.attributes.destination).slot();
  // Anew for each request: what was answered before may be true no more.
  if (!is_group && !std::exchange(has_asked_, true) && !peers.ask_again(slot).ok() && !core_.is_reliable())
    return false;
  const bool is_awaited = is_group ? peers.awaits_everyone() : peers.awaits_answer(slot);
  if (is_awaited && keep_waiting(agent_answer_, kAgentPatience)) return true;
  return keep_waiting(introduction_, introduction_patience());
}

Duration Requester::introduction_patience() const {
  const Duration rest = core_.is_reliable() ? not_ready_patience() : Duration{};
  return rest == kForever ? kForever : rest + kIntroductionPatience;
}

Duration Requester::not_ready_patience() const {
  if (core_.attributes.timeout == 0) return kForever;
  // IBTA 9.7.6.1.3: 4.096 us * 2^timeout.
  return Duration::nanoseconds(int64_t{4096} << core_.attributes.timeout) * (core_.attributes.retry_count + 1);
}

Duration Requester::receiver_patience() const {
  if (core_.attributes.rnr_retry == kRetryForEver) return kForever;
  const uint32_t timer = endpoint_.receiver_timer() % std::size(kReceiverTimers);
  return Duration::nanoseconds(int64_t{10'000} * kReceiverTimers[timer]) * core_.attributes.rnr_retry;
}

Requester::Step Requester::lose(const SendWork& work, const Verdict& verdict) {
  log(LogLevel::info, "QP {:#08x} WR {:#x} {} of {} bytes is lost ({}: {}{}{})", core_.qpn.value, work.work_id,
      name(work.opcode), work.length, describe(verdict.reason).name, describe(verdict.reason).meaning,
      verdict.detail.empty() ? "" : "; ", verdict.detail);
  core_.device.count_dropped_message();
  complete_head();
  return Step::went_on;
}

// ---- answers ----

bool Requester::deliver(const local::Awaiting& awaiting, const local::ReplyFields& reply) {
  if (parts_ && awaiting.attempt == parts_->attempt) return on_part(awaiting, reply);
  const uint32_t oldest = next_number_ - static_cast<uint32_t>(sends_.in_flight());
  if (awaiting.attempt != attempt_ || sends_.in_flight() == 0 || awaiting.number != oldest) return true;
  const SendWork& work = sends_.head();
  Verdict verdict;
  switch (reply.kind) {
    case local::ReplyKind::accepted:
      starts_count_ = false;
      if (is_fetched(work) && reply.value == 1) fetching_ = Fetching::works;
      if (local::is_atomic(work.opcode) && !endpoint_.store(work, 0, as_bytes(reply.value), verdict)) {
        withdraw();
        fail_head(verdict);
        return false;
      }
      complete_head();
      // Those in flight will take some of them.
      credits_ = static_cast<uint32_t>(reply.credits - std::min<uint64_t>(reply.credits, sends_.in_flight()));
      return true;
    case local::ReplyKind::refused:
      verdict = refusal(reply);
      // What follows a lost message is in the lane and comes through.
      if (!core_.is_reliable() && !is_own_error(verdict)) return lose(work, verdict) == Step::went_on;
      withdraw();
      fail_head(verdict);
      return false;
    case local::ReplyKind::unreachable:
      log(LogLevel::info, "QP {:#08x}: its peer may not read this process's memory; long messages go in parts",
          core_.qpn.value);
      fetching_ = Fetching::forbidden;
      withdraw();
      receive_taken_ = true;
      return true;
    case local::ReplyKind::none:
    case local::ReplyKind::not_ready:
    case local::ReplyKind::absent:
    case local::ReplyKind::skipped:
    case local::ReplyKind::no_room:
      break;
  }
  if (!core_.is_reliable()) {
    complete_head();
    return true;
  }
  // To be tried anew; what the peer's tables say then decides how long.
  withdraw();
  if (reply.kind == local::ReplyKind::not_ready)
    receives_used_ = static_cast<uint32_t>(reply.value);
  else
    // The peer has been reset since it took the last one, or was not connected yet.
    starts_count_ = true;
  return true;
}

bool Requester::on_part(const local::Awaiting& awaiting, const local::ReplyFields& reply) {
  const SendWork& work = sends_.head();
  Verdict verdict;
  switch (reply.kind) {
    case local::ReplyKind::accepted:
      // What a READ asks for comes for itself.
      if (work.opcode != SendOpcode::rdma_read) part_done(work);
      return true;
    case local::ReplyKind::refused:
      verdict = refusal(reply);
      if (!core_.is_reliable() && !is_own_error(verdict)) return lose(work, verdict) == Step::went_on;
      fail_head(verdict);
      return false;
    case local::ReplyKind::not_ready:
      receives_used_ = static_cast<uint32_t>(reply.value);
      receive_taken_ = false;
      break;
    case local::ReplyKind::absent:
    case local::ReplyKind::skipped:
      starts_count_ = true;
      break;
    case local::ReplyKind::no_room:
      if (work.opcode != SendOpcode::rdma_read) break;
      if (!parts_->refused) parts_->refused = awaiting.number;
      if (parts_->refused != oldest_part()) return true;
      break;
    case local::ReplyKind::none:
    case local::ReplyKind::unreachable:
      break;
  }
  if (core_.is_reliable())
    withdraw_parts();
  else
    complete_head();
  return true;
}

void Requester::part_done(const SendWork& work) {
  receive_taken_ = is_send(work.opcode);
  --parts_->in_flight;
  parts_->done = std::min(parts_->done + local::kPartBytes, work.length);
  if (parts_->refused && parts_->refused == oldest_part()) withdraw_parts();
  if (parts_->done != work.length) return;
  if (work.opcode == SendOpcode::rdma_write_with_imm) {
    data_placed_ = true;
    parts_.reset();
    return;
  }
  if (is_send(work.opcode)) {
    ++next_number_;
    use_receive();
    starts_count_ = false;
  }
  complete_head();
}

bool Requester::take_response(const local::Request& request) {
  const local::RequestFields& fields = request.fields();
  const bool asked_for = parts_ && parts_->in_flight != 0 && sends_.head().opcode == SendOpcode::rdma_read &&
                         fields.number == oldest_part() && fields.stream == stream_ && fields.source == path().peer &&
                         core_.device.peers().was_last_owner(fields.source.slot(), request.from());
  if (!asked_for) return true;
  const SendWork& work = sends_.head();
  const uint64_t expected = std::min(work.length - parts_->done, local::kPartBytes);
  Verdict verdict;
  if (request.payload().size() != expected) {
    local::decide(verdict, CompletionStatus::remote_operation_error, Reason::bad_response,
                  "{} bytes came where {} were asked for", request.payload().size(), expected);
  } else if (endpoint_.store(work, parts_->done, request.payload(), verdict)) {
    part_done(work);
    return true;
  }
  fail_head(verdict);
  return false;
}

void Requester::look_after_peer() {
  if (!endpoint_.peer() || !endpoint_.peer()->dead()) return;
  if (sends_.in_flight() != 0) withdraw();
  if (parts_) withdraw_parts();
}

void Requester::withdraw() {
  sends_.each_in_flight([this](const SendWork& work) {
    --next_number_;
    if (local::takes_receive(work.opcode)) --receives_used_;
  });
  sends_.withdraw();
  credits_ = 0;
  attempt_ = draw_attempt();
}

void Requester::use_receive() {
  ++receives_used_;
  if (credits_ != 0) --credits_;
}

void Requester::flush() {
  // A request that it refused may be why the queue pair is in error: then its peer has moved on, and it succeeds first.
  const bool has_ended = window_change_ && window_change_->is_over();
  window_change_.reset();
  if (has_ended) complete_head();
  if (sends_.in_flight() != 0) withdraw();
  while (!sends_.idle()) {
    log(LogLevel::info, "QP {:#08x} WR {:#x} {}: WR_FLUSH_ERR ({}: {})", core_.qpn.value, sends_.head().work_id,
        name(sends_.head().opcode), describe(Reason::flushed).name, describe(Reason::flushed).meaning);
    finish_head(CompletionStatus::flushed, Reason::flushed);
  }
}

void Requester::clear() {
  sends_.clear();
  head_offset_ = 0;
  data_placed_ = by_request_ = receive_taken_ = false;
  parts_.reset();
  window_change_.reset();
  hold_ = Hold::nothing;
  last_answers_ = agent_answer_ = introduction_ = not_ready_ = no_receive_ = {};
  has_asked_ = false;
  attempt_ = draw_attempt();
  stream_ = static_cast<uint32_t>(random_u64());
  next_number_ = next_part_ = receives_used_ = credits_ = 0;
  starts_count_ = true;
}

void Requester::complete_head() {
  const SendWork& work = sends_.head();
  // What a line is made of costs something too.
  if (log_enabled(LogLevel::trace))
    log(LogLevel::trace, "QP {:#08x} WR {:#x} {} of {} bytes: SUCCESS", core_.qpn.value, work.work_id,
        name(work.opcode), work.length);
  agent_answer_.begun = introduction_.begun = not_ready_.begun = no_receive_.begun = has_asked_ = false;
  if (work.signaled || core_.setup.signal_all) {
    finish_head(CompletionStatus::success, Reason::none);
  } else {
    pop_head();
  }
}

void Requester::pop_head() {
  // One that is in flight has left these to the next.
  if (sends_.in_flight() == 0) {
    head_offset_ = 0;
    data_placed_ = by_request_ = receive_taken_ = false;
    parts_.reset();
  }
  sends_.pop();
}

Requester::Step Requester::fail_head(const Verdict& verdict) {
  const SendWork& work = sends_.head();
  log(LogLevel::warn, "QP {:#08x} WR {:#x} {} of {} bytes: {} ({}: {}{}{})", core_.qpn.value, work.work_id,
      name(work.opcode), work.length, name(verdict.status), describe(verdict.reason).name,
      describe(verdict.reason).meaning, verdict.detail.empty() ? "" : "; ", verdict.detail);
  finish_head(verdict.status, verdict.reason);
  return Step::failed;
}

void Requester::finish_head(CompletionStatus status, Reason reason) {
  const SendWork& work = sends_.head();
  const Completion completion{.work_id = work.work_id,
                              .status = status,
                              .opcode = completion_opcode(work.opcode),
                              .reason = reason,
                              .byte_length = static_cast<uint32_t>(work.length),
                              .qpn = core_.qpn};
  pop_head();
  core_.setup.send_cq->push(completion, core_.queue_pair, WorkQueueKind::send, sends_.executed());
}

}  // namespace verbatim::model
