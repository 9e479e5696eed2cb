#include "local/local_endpoint.h"

#include <cstring>

#include "base/guarded_copy.h"
#include "base/log.h"
#include "local/null_memory.h"

namespace verbatim::local {
namespace {

template <class... Args>
void decide(Verdict& verdict, CompletionStatus status, Reason reason, fmt::format_string<Args...> format,
            Args&&... args) {
  verdict.status = status;
  verdict.reason = reason;
  if (log_enabled(LogLevel::warn)) verdict.detail = fmt::format(format, std::forward<Args>(args)...);
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

std::string_view verb(const SendWork& work) { return work.opcode == SendOpcode::rdma_read ? "read" : "write"; }

uint32_t right_needed(const SendWork& work) {
  return work.opcode == SendOpcode::rdma_read ? access::kRemoteRead : access::kRemoteWrite;
}

// How many bytes of [start, start + length) lie beyond a range of `size` bytes at `base`; in words for a person.
std::string how_it_misses(uint64_t start, uint64_t length, uint64_t base, uint64_t size) {
  if (start < base) return fmt::format("starts {} bytes before", base - start);
  if (start - base > size) return fmt::format("starts {} bytes after its end", start - base - size);
  return fmt::format("ends {} bytes later", length - (size - (start - base)));
}

bool contains(uint64_t base, uint64_t size, uint64_t start, uint64_t length) {
  return start >= base && start - base <= size && length <= size - (start - base);
}

}  // namespace

LocalEndpoint::LocalEndpoint(Adapter& adapter, PeerTable& peers) : adapter_(adapter), peers_(peers) {}

Status LocalEndpoint::connect(const Path& path) {
  if (Status status = peers_.want(path.peer.slot()); !status.ok()) return status;
  if (Status status = install_guard(); !status.ok()) return status;
  path_ = path;
  peer_.reset();
  mapping_.reset();
  return Status::success();
}

Advance LocalEndpoint::advance(const SendWork& work, uint64_t& offset, Verdict& verdict) {
  if (const Advance found = resolve(verdict); found != Advance::done) return found;
  if (peer_->dead()) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "process {} has ended", peer_->pid());
    return Advance::failed;
  }
  const SegmentView& view = peer_->view();
  const bool has_data = work.length != 0;
  const TouchRecords::Guard touch(adapter_.touch_records(), path_.own.index(),
                                  {path_.peer, has_data ? view.entry_index(work.rkey) : TouchTarget::kNoRegion},
                                  // The target's membarrier interrupts only processes that registered too.
                                  view.revokes_by_membarrier() && adapter_.view().revokes_by_membarrier());
  Slice slice;
  if (!gather(work, offset, slice, verdict)) return Advance::failed;
  QueuePairFields target;
  if (!view.read(path_.peer, target)) target = {};
  if (!target_ready(target, verdict)) return Advance::waiting;
  if (!operation_allowed(target, work, verdict)) return Advance::failed;
  if (has_data) {
    RegionFields region;
    if (!find_region(target, work, region, verdict)) return Advance::failed;
    if (Advance result = copy(work, region, slice, verdict); result != Advance::done) return result;
  }
  offset += slice.length;
  return slice.last ? Advance::done : Advance::more;
}

Advance LocalEndpoint::resolve(Verdict& verdict) {
  if (peer_) return Advance::done;
  peer_ = peers_.find(path_.peer.slot());
  if (peer_) return Advance::done;
  if (peers_.has_ended(path_.peer.slot())) {
    decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "the process of QP {:#08x} has ended",
           path_.peer.value);
    return Advance::failed;
  }
  decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_unknown,
         "no process with QP {:#08x} has shown itself on this host", path_.peer.value);
  return Advance::waiting;
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

bool LocalEndpoint::operation_allowed(const QueuePairFields& target, const SendWork& work, Verdict& verdict) {
  const bool reads = work.opcode == SendOpcode::rdma_read;
  if (!(target.access & right_needed(work))) {
    decide(verdict, CompletionStatus::remote_invalid_request, Reason::remote_operation_off,
           "peer QP {:#08x} has qp_access_flags {:#x}, a remote {} needs {:#x}", path_.peer.value, target.access,
           verb(work), right_needed(work));
  } else if (reads && target.responder_depth == 0) {
    decide(verdict, CompletionStatus::remote_invalid_request, Reason::remote_no_read_depth,
           "peer QP {:#08x} has max_dest_rd_atomic 0", path_.peer.value);
  } else {
    return true;
  }
  tell_peer(NoticeKind::invalid_request);
  return false;
}

bool LocalEndpoint::find_region(const QueuePairFields& target, const SendWork& work, RegionFields& region,
                                Verdict& verdict) {
  constexpr auto kStatus = CompletionStatus::remote_access_error;
  if (!peer_->view().read(work.rkey, region)) {
    decide(verdict, kStatus, Reason::remote_key_unknown, "rkey {:#x} is no memory region of process {}",
           work.rkey.value, peer_->pid());
  } else if (region.pd != target.pd) {
    decide(verdict, kStatus, Reason::remote_key_other_pd,
           "rkey {:#x} belongs to PD {}, peer QP {:#08x} to PD {} of process {}", work.rkey.value, region.pd.value,
           path_.peer.value, target.pd.value, peer_->pid());
  } else if (region.queue_pair.value != 0 && region.queue_pair != path_.peer) {
    decide(verdict, kStatus, Reason::remote_key_other_qp,
           "rkey {:#x} is a window of QP {:#08x}, the peer is QP {:#08x}", work.rkey.value, region.queue_pair.value,
           path_.peer.value);
  } else if (!(region.access & right_needed(work))) {
    decide(verdict, kStatus, Reason::remote_no_access, "rkey {:#x} has access {:#x}, a remote {} needs {:#x}",
           work.rkey.value, region.access, verb(work), right_needed(work));
  } else if (!contains(region.iova, region.length, work.remote_address, work.length)) {
    decide(verdict, kStatus, Reason::remote_range, "rkey {:#x} grants {:#x}+{}, the {} of {} bytes at {:#x} {}",
           work.rkey.value, region.iova, region.length, verb(work), work.length, work.remote_address,
           how_it_misses(work.remote_address, work.length, region.iova, region.length));
  } else {
    return true;
  }
  tell_peer(NoticeKind::access_error);
  return false;
}

bool LocalEndpoint::gather(const SendWork& work, uint64_t offset, Slice& slice, Verdict& verdict) const {
  slice.offset = offset;
  uint64_t skip = offset;
  uint64_t room = kSliceBytes;
  for (const Sge& sge : work.sges) {
    if (sge.length == 0) continue;
    // Every SGE is checked before the first byte moves.
    uint8_t* const start = work.inline_data ? reinterpret_cast<uint8_t*>(sge.address) : locate(sge, work, verdict);
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

uint8_t* LocalEndpoint::locate(const Sge& sge, const SendWork& work, Verdict& verdict) const {
  constexpr auto kStatus = CompletionStatus::local_protection_error;
  RegionFields region;
  if (!adapter_.view().read(sge.lkey, region) || region.kind == RegionKind::window) {
    decide(verdict, kStatus, Reason::local_key_unknown, "lkey {:#x} is no memory region", sge.lkey.value);
  } else if (region.pd != path_.pd) {
    decide(verdict, kStatus, Reason::local_key_other_pd, "lkey {:#x} belongs to PD {}, the QP to PD {}", sge.lkey.value,
           region.pd.value, path_.pd.value);
  } else if (!contains(region.iova, region.length, sge.address, sge.length)) {
    decide(verdict, kStatus, Reason::local_range, "lkey {:#x} covers {:#x}+{}, the SGE of {} bytes at {:#x} {}",
           sge.lkey.value, region.iova, region.length, sge.length, sge.address,
           how_it_misses(sge.address, sge.length, region.iova, region.length));
  } else if (work.opcode == SendOpcode::rdma_read && !(region.access & access::kLocalWrite)) {
    decide(verdict, kStatus, Reason::local_no_write_access, "lkey {:#x} has access {:#x}, a read writes to it",
           sge.lkey.value, region.access);
  } else if (region.kind == RegionKind::null) {
    return work.opcode == SendOpcode::rdma_read ? null_sink() : null_source();
  } else {
    return reinterpret_cast<uint8_t*>(region.address + (sge.address - region.iova));
  }
  return nullptr;
}

Advance LocalEndpoint::copy(const SendWork& work, const RegionFields& region, const Slice& slice, Verdict& verdict) {
  const uint64_t into_region = work.remote_address - region.iova + slice.offset;
  const uint64_t remote = region.address + into_region;
  if (peer_->is_self()) {
    const bool copied = copy_direct(work, reinterpret_cast<uint8_t*>(remote), slice, verdict);
    return copied ? Advance::done : Advance::failed;
  }
  if (!mapping_ || std::memcmp(&mapped_region_, &region, sizeof region) != 0) {
    mapping_ = peer_->mapping(region);
    mapped_region_ = region;
  }
  const bool copied = mapping_ ? copy_direct(work, mapping_->data() + into_region, slice, verdict)
                               : copy_by_kernel(work, remote, slice, verdict);
  return copied ? Advance::done : Advance::failed;
}

bool LocalEndpoint::copy_direct(const SendWork& work, uint8_t* remote, const Slice& slice, Verdict& verdict) {
  for (int i = 0; i < slice.pieces; ++i) {
    auto* local = static_cast<uint8_t*>(slice.local[i].iov_base);
    const size_t length = slice.local[i].iov_len;
    CopyFault fault;
    const bool copied = work.opcode == SendOpcode::rdma_read ? guarded_copy(local, remote, length, &fault)
                                                             : guarded_copy(remote, local, length, &fault);
    if (!copied) {
      const auto* where = static_cast<const uint8_t*>(fault.address);
      if (where >= local && where < local + length) {
        decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
               fault.address);
      } else {
        decide(verdict, CompletionStatus::remote_operation_error, Reason::remote_memory_gone,
               "process {} has no memory any more behind rkey {:#x}", peer_->pid(), work.rkey.value);
        tell_peer(NoticeKind::operation_error);
      }
      return false;
    }
    remote += length;
  }
  return true;
}

bool LocalEndpoint::copy_by_kernel(const SendWork& work, uint64_t remote, const Slice& slice, Verdict& verdict) {
  const std::span<const iovec> pieces(slice.local.data(), slice.pieces);
  const ProcessMemory& memory = peer_->memory();
  const ProcessMemory::Outcome outcome = work.opcode == SendOpcode::rdma_read
                                             ? memory.read(pieces, remote, slice.length, slice.last)
                                             : memory.write(pieces, remote, slice.length, slice.last);
  switch (outcome.result) {
    case ProcessMemory::Result::done:
      return true;
    case ProcessMemory::Result::local_fault:
      decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone,
             "memory behind an SGE is no longer mapped");
      return false;
    case ProcessMemory::Result::remote_fault:
      decide(verdict, CompletionStatus::remote_operation_error, Reason::remote_memory_gone,
             "process {} has no memory any more behind rkey {:#x}", peer_->pid(), work.rkey.value);
      tell_peer(NoticeKind::operation_error);
      return false;
    case ProcessMemory::Result::forbidden:
      decide(verdict, CompletionStatus::remote_operation_error, Reason::memory_forbidden,
             "the kernel forbids process_vm access to process {} (ptrace scope, or it is not dumpable)", peer_->pid());
      return false;
    case ProcessMemory::Result::dead:
      peer_->mark_dead();
      decide(verdict, CompletionStatus::retry_exceeded, Reason::peer_dead, "process {} has ended", peer_->pid());
      return false;
  }
  return false;
}

void LocalEndpoint::tell_peer(NoticeKind kind) {
  adapter_.leave_notice({path_.peer, path_.own, static_cast<uint32_t>(kind), 0});
  peer_->ring();
}

}  // namespace verbatim::local
