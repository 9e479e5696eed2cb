#include "local/local_endpoint.h"

#include <cstring>
#include <utility>

#include "base/guarded_atomic.h"
#include "base/guarded_copy.h"
#include "base/watched_call.h"
#include "local/null_memory.h"
#include "local/own_message.h"

namespace verbatim::local {
namespace {

std::span<const uint8_t> as_bytes(const uint64_t& word) {
  return {reinterpret_cast<const uint8_t*>(&word), sizeof word};
}

bool accepts_operations(uint32_t state) {
  switch (static_cast<QueuePairState>(state)) {
    case QueuePairState::rtr:
    case QueuePairState::rts:
    case QueuePairState::sqd:
    case QueuePairState::sqe:
      return true;
    default:
      return false;
  }
}

std::string_view verb(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::rdma_read:
      return "read";
    case SendOpcode::atomic_compare_swap:
    case SendOpcode::atomic_fetch_add:
      return "atomic";
    case SendOpcode::flush:
      return "flush";
    default:
      return "write";
  }
}

constexpr uint64_t kAtomicBytes = 8;

// The bytes of the target's memory that it names.
uint64_t remote_length(const SendWork& work) {
  if (is_atomic(work.opcode) || work.opcode == SendOpcode::atomic_write) return kAtomicBytes;
  return work.opcode == SendOpcode::flush ? work.operands.flush.length : work.length;
}

// Those of the shared receive queue of that number, in use or not; null beyond the last number.
const ReceiveCount* shared_receives(const SegmentView& view, uint32_t number) {
  return number < kSharedReceiveEntries ? view.receive_count(kQueuePairEntries + number) : nullptr;
}

uint32_t flush_right(const SendWork& work) {
  constexpr uint32_t kGlobal = 1, kPersistent = 2;
  return (work.operands.flush.type & kGlobal ? access::kFlushGlobal : 0) |
         (work.operands.flush.type & kPersistent ? access::kFlushPersistent : 0);
}

bool writes_locally(SendOpcode opcode) { return opcode == SendOpcode::rdma_read || is_atomic(opcode); }

uint32_t right_needed(const SendWork& work) {
  return work.opcode == SendOpcode::flush ? flush_right(work) : local::right_needed(work.opcode);
}

}  // namespace

bool takes_receive(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::send:
    case SendOpcode::send_with_imm:
    case SendOpcode::send_with_invalidate:
    case SendOpcode::rdma_write_with_imm:
      return true;
    default:
      return false;
  }
}

bool is_atomic(SendOpcode opcode) {
  return opcode == SendOpcode::atomic_compare_swap || opcode == SendOpcode::atomic_fetch_add;
}

bool moves_data(SendOpcode opcode) {
  return opcode == SendOpcode::rdma_read || opcode == SendOpcode::rdma_write ||
         opcode == SendOpcode::rdma_write_with_imm;
}

uint32_t right_needed(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::rdma_read:
      return access::kRemoteRead;
    case SendOpcode::rdma_write:
    case SendOpcode::rdma_write_with_imm:
    case SendOpcode::atomic_write:
      return access::kRemoteWrite;
    case SendOpcode::atomic_compare_swap:
    case SendOpcode::atomic_fetch_add:
      return access::kRemoteAtomic;
    default:
      return 0;
  }
}

bool execute_atomic(const SendWork& work, uint64_t* word, uint64_t* before, CopyFault* fault) {
  const AtomicOperands& operands = work.operands.atomic;
  switch (work.opcode) {
    case SendOpcode::atomic_compare_swap:
      return guarded_compare_swap(word, operands.compare_add, operands.swap, before, fault);
    case SendOpcode::atomic_fetch_add:
      return guarded_fetch_add(word, operands.compare_add, before, fault);
    default:
      return guarded_store(word, operands.compare_add, fault);
  }
}

const rseq_cs& atomic_sequence(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::atomic_compare_swap:
      return kCompareSwapSequence;
    case SendOpcode::atomic_fetch_add:
      return kFetchAddSequence;
    default:
      return kStoreSequence;
  }
}

CopyEnd execute_atomic_watched(const SendWork& work, uint64_t* word, uint64_t* before, CopyFault* fault) {
  const AtomicOperands& operands = work.operands.atomic;
  switch (work.opcode) {
    case SendOpcode::atomic_compare_swap:
      return interruptible_compare_swap(word, operands.compare_add, operands.swap, before, fault);
    case SendOpcode::atomic_fetch_add:
      return interruptible_fetch_add(word, operands.compare_add, before, fault);
    default:
      return interruptible_store(word, operands.compare_add, fault);
  }
}

LocalEndpoint::LocalEndpoint(Adapter& adapter, PeerTable& peers, Lanes& lanes)
    : adapter_(adapter), peers_(peers), lanes_(lanes) {}

Status LocalEndpoint::connect(const Path& path) {
  if (Status status = peers_.want(path.peer.slot()); !status.ok()) return status;
  if (Status status = install_guard(); !status.ok()) return status;
  path_ = path;
  peer_.reset();
  lanes_to_peer_.reset();
  target_ = {};
  region_ = mapped_region_ = {};
  admitted_at_ = QueuePairEntry::kUnseen;
  mapping_.reset();
  return Status::success();
}

Advance LocalEndpoint::advance(const SendWork& work, uint64_t& offset, Verdict& verdict) {
  if (const Advance found = find_living(verdict); found != Advance::done) return found;
  const uint64_t begun_at = offset;
  Advance outcome;
  // Who was interrupted checks everything again and goes on, until the slice is done.
  do outcome = advance_touching(work, offset, verdict);
  while (outcome == Advance::more && (offset == begun_at || offset % kSliceBytes != 0));
  // After the touch has ended, so that whoever hears of a refusal has nothing of it to wait for.
  if (const auto notice = std::exchange(owed_notice_, std::nullopt); notice && path_.reliable) {
    adapter_.leave_notice({path_.peer, path_.own, static_cast<uint32_t>(*notice), target_stream_});
    peer_->ring();
  }
  return outcome;
}

Advance LocalEndpoint::advance_touching(const SendWork& work, uint64_t& offset, Verdict& verdict) {
  const SegmentView& view = peer_->view();
  const bool has_data = remote_length(work) != 0;
  TouchRecords::Guard touch = touch_peer(has_data ? view.entry_index(work.rkey) : TouchTarget::kNoRegion);
  Slice slice;
  if (!gather(work, offset, kSliceBytes - offset % kSliceBytes, slice, verdict)) return Advance::failed;
  const QueuePairFields& target = read_target(work);
  if (const Advance admitted = admit(target, work, verdict); admitted != Advance::done) return admitted;
  if (has_data) {
    if (!find_region(view, target, work, region_, verdict)) {
      tell_peer(NoticeKind::access_error);
      return Advance::failed;
    }
    const Advance result =
        moves_data(work.opcode) ? copy(work, region_, touch, slice, verdict) : change(work, region_, slice, verdict);
    if (result != Advance::done) return result;
  }
  offset += slice.length;
  return slice.last ? Advance::done : Advance::more;
}

TouchRecords::Guard LocalEndpoint::touch_peer(uint32_t entry) {
  // The target's membarrier interrupts only processes that registered too.
  const bool light = peer_->view().revokes_by_membarrier() && adapter_.view().revokes_by_membarrier();
  return {adapter_.touch_records(), path_.own.index(), {path_.peer, entry}, light, Interrupted::turns_back};
}

TouchRecords::Guard LocalEndpoint::touch_own() {
  return {adapter_.touch_records(),
          path_.own.index(),
          {path_.own, TouchTarget::kNoRegion},
          adapter_.view().revokes_by_membarrier()};
}

bool LocalEndpoint::watch_admitted(const rseq_cs& sequence) const {
  watch(sequence);
  return peer_->view().is_still(target_) && peer_->view().is_still(region_);
}

Advance LocalEndpoint::find_living(Verdict& verdict) {
  if (!peer_) peer_ = peers_.find(path_.peer.slot());
  if (peer_ && !peer_->dead()) return Advance::done;
  if (peer_) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "process {} has ended", peer_->pid());
    return Advance::failed;
  }
  if (peers_.has_ended(path_.peer.slot())) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "the process of QP {:#08x} has ended",
           path_.peer.value);
    return Advance::failed;
  }
  decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_unknown,
         "no process with QP {:#08x} has shown itself on this host", path_.peer.value);
  return Advance::waiting;
}

const QueuePairFields& LocalEndpoint::read_target(const SendWork& work) {
  static constexpr QueuePairFields kNone;
  const SegmentView& view = peer_->view();
  if (!view.refresh(path_.peer, target_)) return kNone;
  if (static_cast<QueuePairType>(target_.fields.type) != QueuePairType::xrc_receive) return target_.fields;
  // An XRC request acts in the domain of the shared receive queue that it names.
  const ReceiveCount* const queue = shared_receives(view, work.shared_queue);
  shared_target_ = target_.fields;
  shared_target_.pd = {queue ? queue->pd.load(std::memory_order_relaxed) : 0};
  return shared_target_;
}

Advance LocalEndpoint::admit(const QueuePairFields& target, const SendWork& work, Verdict& verdict) {
  const uint32_t needed = right_needed(work);
  if (target_.sequence == QueuePairEntry::kUnseen || target_.sequence != admitted_at_ || needed != admitted_rights_) {
    admitted_at_ = QueuePairEntry::kUnseen;
    if (!target_ready(target, verdict)) return Advance::waiting;
    target_stream_ = target.stream;
    if (!operation_allowed(target, work, needed, verdict)) return Advance::failed;
    admitted_at_ = target_.sequence;
    admitted_rights_ = needed;
  }
  const bool aligned = is_atomic(work.opcode) || work.opcode == SendOpcode::atomic_write;
  if (!aligned || work.remote_address % kAtomicBytes == 0) return Advance::done;
  decide(verdict, CompletionStatus::remote_invalid_request, Reason::remote_unaligned_atomic,
         "the address {:#x} is no multiple of 8", work.remote_address);
  tell_peer(NoticeKind::invalid_request);
  return Advance::failed;
}

bool LocalEndpoint::target_ready(const QueuePairFields& target, Verdict& verdict) const {
  if (target.qpn != path_.peer || !accepts_operations(target.state)) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_not_ready, "peer QP {:#08x} of process {} is {}",
           path_.peer.value, peer_->pid(),
           target.qpn == path_.peer ? name(static_cast<QueuePairState>(target.state)) : "not there");
    return false;
  }
  if (target.peer != path_.own || target.own_gid != path_.peer_gid || target.peer_gid != path_.own_gid) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_names_another,
           "peer QP {:#08x} ({}) is connected to QP {:#08x} ({}), this is QP {:#08x} ({}) and looks for it at {}",
           path_.peer.value, target.own_gid.text(), target.peer.value, target.peer_gid.text(), path_.own.value,
           path_.own_gid.text(), path_.peer_gid.text());
    return false;
  }
  return true;
}

bool LocalEndpoint::operation_allowed(const QueuePairFields& target, const SendWork& work, uint32_t needed,
                                      Verdict& verdict) {
  const bool reads = work.opcode == SendOpcode::rdma_read || is_atomic(work.opcode);
  if ((target.access & needed) != needed) {
    decide(verdict, CompletionStatus::remote_invalid_request, Reason::remote_operation_off,
           "peer QP {:#08x} has qp_access_flags {:#x}, a remote {} needs {:#x}", path_.peer.value, target.access,
           verb(work.opcode), needed);
  } else if (reads && target.responder_depth == 0) {
    decide(verdict, CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth,
           "peer QP {:#08x} has max_dest_rd_atomic 0", path_.peer.value);
  } else {
    return true;
  }
  tell_peer(NoticeKind::invalid_request);
  return false;
}

bool find_region(const SegmentView& view, const QueuePairFields& target, const SendWork& work, KnownRegion& known,
                 Verdict& verdict) {
  constexpr auto kStatus = CompletionStatus::remote_access_error;
  const RegionFields& region = known.fields;
  const uint64_t length = remote_length(work);
  const uint32_t needed = right_needed(work);
  if (!view.refresh(work.rkey, known)) {
    decide(verdict, kStatus, Reason::remote_key_unknown, "rkey {:#x} is no memory region of the peer", work.rkey.value);
  } else if (region.pd != target.pd) {
    decide(verdict, kStatus, Reason::remote_key_other_pd, "rkey {:#x} belongs to PD {}, QP {:#08x} to PD {}",
           work.rkey.value, region.pd.value, target.qpn.value, target.pd.value);
  } else if (region.queue_pair.value != 0 && region.queue_pair != target.qpn) {
    decide(verdict, kStatus, Reason::remote_key_other_qp,
           "rkey {:#x} is a window of QP {:#08x}, the peer is QP {:#08x}", work.rkey.value, region.queue_pair.value,
           target.qpn.value);
  } else if ((region.access & needed) != needed) {
    decide(verdict, kStatus, Reason::remote_no_access, "rkey {:#x} has access {:#x}, a remote {} needs {:#x}",
           work.rkey.value, region.access, verb(work.opcode), needed);
  } else if (!contains(region.iova, region.length, work.remote_address, length)) {
    decide(verdict, kStatus, Reason::remote_range, "rkey {:#x} grants {:#x}+{}, the {} of {} bytes at {:#x} {}",
           work.rkey.value, region.iova, region.length, verb(work.opcode), length, work.remote_address,
           how_it_misses(work.remote_address, length, region.iova, region.length));
  } else {
    return true;
  }
  return false;
}

bool LocalEndpoint::gather(const SendWork& work, uint64_t offset, uint64_t room, Slice& slice, Verdict& verdict) {
  slice.offset = offset;
  uint64_t skip = offset;
  for (const Sge& sge : work.sges) {
    if (sge.length == 0) continue;
    // Every SGE is checked before the first byte moves.
    uint8_t* const start = work.inline_data
                               ? reinterpret_cast<uint8_t*>(sge.address)
                               : locate(adapter_, sge, path_.pd, writes_locally(work.opcode), own_region_, verdict);
    if (!start) return false;
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const uint64_t length = std::min(room, sge.length - skip);
    if (length == 0) continue;
    slice.local[slice.pieces++] = {is_null_memory(start) ? start : start + skip, length};
    slice.length += length;
    room -= length;
    skip = 0;
  }
  slice.last = offset + slice.length == work.length;
  return true;
}

const PeerMapping* LocalEndpoint::mapping_of(const KnownRegion& region) {
  if (!mapped_region_.is_as(region)) {
    mapping_ = peer_->mapping(region.fields);
    mapped_region_ = region;
  }
  return mapping_.get();
}

Advance LocalEndpoint::copy(const SendWork& work, const KnownRegion& region, TouchRecords::Guard& touch, Slice& slice,
                            Verdict& verdict) {
  const uint64_t into_region = work.remote_address - region.fields.iova + slice.offset;
  const uint64_t remote = region.fields.address + into_region;
  uint8_t* reached = nullptr;
  if (peer_->is_self())
    reached = reinterpret_cast<uint8_t*>(remote);
  else if (const PeerMapping* mapping = mapping_of(region))
    reached = mapping->data() + into_region;
  return reached ? copy_direct(work, reached, slice, verdict) : copy_by_kernel(work, remote, touch, slice, verdict);
}

// An atomic, an ATOMIC_WRITE, or a FLUSH: on one host everybody sees what was written, so that there is nothing to do
// for its global part.
Advance LocalEndpoint::change(const SendWork& work, const KnownRegion& region, const Slice& slice, Verdict& verdict) {
  if (work.opcode == SendOpcode::flush) return Advance::done;
  const uint64_t into_region = work.remote_address - region.fields.iova;
  uint8_t* remote;
  if (peer_->is_self())
    remote = reinterpret_cast<uint8_t*>(region.fields.address + into_region);
  else if (const PeerMapping* mapping = mapping_of(region))
    remote = mapping->data() + into_region;
  else
    return Advance::request;
  // The address that peers use may be aligned where the memory behind it is not.
  if (reinterpret_cast<uint64_t>(remote) % kAtomicBytes != 0) {
    decide(verdict, CompletionStatus::remote_operation_error, Reason::remote_unaligned_atomic,
           "the memory behind {:#x} is not aligned to 8 bytes", work.remote_address);
    tell_peer(NoticeKind::operation_error);
    return Advance::failed;
  }
  SendWork operation = work;
  // An ATOMIC_WRITE's word may lie in the caller's memory.
  if (work.opcode == SendOpcode::atomic_write && slice.length == kAtomicBytes &&
      !read_word(slice, operation.operands.atomic.compare_add, verdict))
    return Advance::failed;
  if (!watch_admitted(atomic_sequence(work.opcode))) return Advance::more;
  uint64_t before = 0;
  CopyFault fault;
  switch (execute_atomic_watched(operation, reinterpret_cast<uint64_t*>(remote), &before, &fault)) {
    case CopyEnd::done:
      break;
    case CopyEnd::interrupted:
      return Advance::more;
    case CopyEnd::fault:
      target_memory_gone(work, verdict);
      return Advance::failed;
  }
  if (is_atomic(work.opcode) && !scatter(slice, as_bytes(before), verdict)) return Advance::failed;
  return Advance::done;
}

bool LocalEndpoint::read_word(const Slice& slice, uint64_t& word, Verdict& verdict) {
  auto* to = reinterpret_cast<uint8_t*>(&word);
  for (int i = 0; i < slice.pieces; ++i) {
    CopyFault fault;
    if (!guarded_copy(to, slice.local[i].iov_base, slice.local[i].iov_len, &fault)) {
      decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
             fault.address);
      return false;
    }
    to += slice.local[i].iov_len;
  }
  return true;
}

bool LocalEndpoint::scatter(const Slice& slice, std::span<const uint8_t> data, Verdict& verdict) {
  const uint8_t* from = data.data();
  for (int i = 0; i < slice.pieces; ++i) {
    CopyFault fault;
    if (!guarded_copy(slice.local[i].iov_base, from, slice.local[i].iov_len, &fault)) {
      decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
             fault.address);
      return false;
    }
    from += slice.local[i].iov_len;
  }
  return true;
}

bool LocalEndpoint::store(const SendWork& work, uint64_t offset, std::span<const uint8_t> data, Verdict& verdict) {
  const TouchRecords::Guard touch = touch_own();
  Slice slice;
  if (!gather(work, offset, data.size(), slice, verdict)) return false;
  return scatter(slice, data.first(slice.length), verdict);
}

void LocalEndpoint::target_memory_gone(const SendWork& work, Verdict& verdict) {
  decide(verdict, CompletionStatus::remote_operation_error, Reason::remote_memory_gone,
         "process {} has no memory any more behind rkey {:#x}", peer_->pid(), work.rkey.value);
  tell_peer(NoticeKind::operation_error);
}

Advance LocalEndpoint::copy_direct(const SendWork& work, uint8_t* remote, Slice& slice, Verdict& verdict) {
  uint64_t total = 0;
  CopyEnd end = watch_admitted(kCopySequence) ? CopyEnd::done : CopyEnd::interrupted;
  for (int i = 0; i < slice.pieces && end == CopyEnd::done; ++i) {
    auto* local = static_cast<uint8_t*>(slice.local[i].iov_base);
    const size_t length = slice.local[i].iov_len;
    size_t copied = 0;
    CopyFault fault;
    end = work.opcode == SendOpcode::rdma_read ? interruptible_copy(local, remote + total, length, &copied, &fault)
                                               : interruptible_copy(remote + total, local, length, &copied, &fault);
    if (end == CopyEnd::fault) {
      const auto* where = static_cast<const uint8_t*>(fault.address);
      if (where >= local && where < local + length) {
        decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
               fault.address);
      } else {
        target_memory_gone(work, verdict);
      }
      return Advance::failed;
    }
    total += copied;
  }
  slice.cut(total);
  return Advance::done;
}

Advance LocalEndpoint::copy_by_kernel(const SendWork& work, uint64_t remote, TouchRecords::Guard& touch, Slice& slice,
                                      Verdict& verdict) {
  const std::span<const iovec> pieces(slice.local.data(), slice.pieces);
  const ProcessMemory& memory = peer_->memory();
  touch.enter_kernel();
  ProcessMemory::Outcome outcome;
  if (watch_admitted(kCallSequence))
    outcome = work.opcode == SendOpcode::rdma_read ? memory.read(pieces, remote, slice.length, slice.last)
                                                   : memory.write(pieces, remote, slice.length, slice.last);
  switch (outcome.result) {
    case ProcessMemory::Result::done:
      slice.cut(outcome.moved);
      return Advance::done;
    case ProcessMemory::Result::local_fault:
      decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone,
             "memory behind an SGE is no longer mapped");
      break;
    case ProcessMemory::Result::remote_fault:
      target_memory_gone(work, verdict);
      break;
    case ProcessMemory::Result::forbidden:
      return Advance::request;
    case ProcessMemory::Result::dead:
      peer_->mark_dead();
      decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "process {} has ended", peer_->pid());
      break;
  }
  return Advance::failed;
}

bool LocalEndpoint::has_receive(const QueuePairFields& target, const SendWork& work, const Envelope& envelope) const {
  const bool shared = target.receive_count >= kQueuePairEntries;
  const bool by_number = static_cast<QueuePairType>(target.type) == QueuePairType::xrc_receive;
  const SegmentView& view = peer_->view();
  const ReceiveCount* count =
      by_number ? shared_receives(view, work.shared_queue) : view.receive_count(target.receive_count);
  // That there is no such queue is for the target to say.
  if (by_number && (!count || count->pd.load(std::memory_order_relaxed) == 0)) return true;
  // Of its own queue's receives this is the only user, so that those which messages under way will take count as used.
  return count && (shared || by_number ? count->available() != 0 : count->posted() != envelope.receives_used);
}

Advance LocalEndpoint::prepare(const SendWork& work, const Envelope& envelope, bool needs_receive, Verdict& verdict) {
  const QueuePairFields& target = read_target(work);
  if (!target_ready(target, verdict)) return Advance::waiting;
  receiver_timer_ = target.min_rnr_timer;
  if (path_.reliable && needs_receive && !envelope.receive_known && !has_receive(target, work, envelope)) {
    decide(verdict, CompletionStatus::receiver_not_ready_exceeded, Reason::remote_no_receive,
           "peer QP {:#08x} of process {} has no receive posted", path_.peer.value, peer_->pid());
    return Advance::no_receive;
  }
  if (!lanes_to_peer_) lanes_to_peer_ = lanes_.to(peer_);
  return lanes_to_peer_ ? Advance::done : Advance::full;
}

RequestFields LocalEndpoint::fields_of(const SendWork& work, const Envelope& envelope) const {
  return {.source = path_.own,
          .target = path_.peer,
          .stream = envelope.stream,
          .number = envelope.awaiting.number,
          .opcode = static_cast<uint8_t>(work.opcode),
          .flags = envelope.first ? lane_flag::kFirst : uint8_t{0},
          .immediate = work.immediate,
          .key = work.rkey.value,
          .shared_queue = work.shared_queue,
          .remote_address = work.remote_address};
}

Advance LocalEndpoint::post(const SendWork& work, const Envelope& envelope, Verdict& verdict) {
  if (const Advance found = find_living(verdict); found != Advance::done) return found;
  const TouchRecords::Guard touch = touch_own();
  OwnMessage message;
  if (!message.gather(adapter_, work, path_.pd, own_region_, verdict)) return Advance::failed;
  if (const Advance ready = prepare(work, envelope, takes_receive(work.opcode), verdict); ready != Advance::done)
    return ready;
  const Advance result = message.post(*lanes_to_peer_, fields_of(work, envelope), work, envelope.awaiting, verdict);
  if (result == Advance::posted) peer_->wake();
  return result;
}

Advance LocalEndpoint::post_part(const SendWork& work, const Envelope& envelope, uint64_t& offset, Verdict& verdict) {
  if (const Advance found = find_living(verdict); found != Advance::done) return found;
  const TouchRecords::Guard touch = touch_own();
  Slice slice;
  if (!gather(work, offset, kPartBytes, slice, verdict)) return Advance::failed;
  const bool is_send = !moves_data(work.opcode);
  if (const Advance ready = prepare(work, envelope, is_send && offset == 0, verdict); ready != Advance::done)
    return ready;
  RequestFields fields = fields_of(work, envelope);
  std::span<const iovec> payload(slice.local.data(), slice.pieces);
  fields.length = static_cast<uint32_t>(slice.length);
  fields.remote_address = is_send ? offset : work.remote_address + offset;
  if (is_send) fields.flags |= lane_flag::kPart | (slice.last ? 0 : lane_flag::kMore);
  if (is_send && work.solicited) fields.flags |= lane_flag::kSolicited;
  if (work.opcode == SendOpcode::rdma_read) {
    payload = {};
    fields.immediate = std::exchange(fields.length, 0);
  }
  // The first half of a WRITE_WITH_IMM; its notice follows as a message.
  if (work.opcode == SendOpcode::rdma_write_with_imm) fields.opcode = static_cast<uint8_t>(SendOpcode::rdma_write);
  CopyFault fault;
  switch (lanes_to_peer_->post(fields, payload, envelope.awaiting, &fault)) {
    case LanePost::shown:
      break;
    case LanePost::full:
      return Advance::full;
    case LanePost::fault:
      decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
             fault.address);
      return Advance::failed;
  }
  peer_->wake();
  offset += slice.length;
  return Advance::posted;
}

}  // namespace verbatim::local
