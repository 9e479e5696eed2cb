#include "local/own_message.h"

#include "local/local_endpoint.h"

namespace verbatim::local {

bool OwnMessage::gather(const Adapter& adapter, const SendWork& work, PdId pd, KnownRegion& known, Verdict& verdict) {
  if (work.opcode == SendOpcode::rdma_write_with_imm) return true;
  for (const Sge& sge : work.sges) {
    if (sge.length == 0) continue;
    uint8_t* const start = work.inline_data ? reinterpret_cast<uint8_t*>(sge.address)
                                            : locate(adapter, sge, pd, is_atomic(work.opcode), known, verdict);
    if (!start) return false;
    pieces_[1 + count_] = {start, sge.length};
    sges_[count_++] = sge;
    length_ += sge.length;
  }
  return true;
}

void OwnMessage::prepend(std::span<const uint8_t> bytes) {
  pieces_[0] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  first_ = 0;
  prepended_ = static_cast<uint32_t>(bytes.size());
}

Advance OwnMessage::post(LanePair& lanes, RequestFields fields, const SendWork& work, const Awaiting& awaiting,
                         Verdict& verdict) {
  if (work.solicited) fields.flags |= lane_flag::kSolicited;
  std::span<const iovec> payload(pieces_.data() + first_, count_ + (1 - first_));
  iovec operands{const_cast<AtomicOperands*>(&work.operands.atomic), sizeof(AtomicOperands)};
  iovec list{sges_.data(), count_ * sizeof(Sge)};
  fields.length = static_cast<uint32_t>(length_ + prepended_);
  if (is_atomic(work.opcode) || (work.opcode == SendOpcode::atomic_write && length_ == 0)) {
    payload = {&operands, 1};
    fields.length = sizeof(AtomicOperands);
  } else if (work.opcode == SendOpcode::rdma_write_with_imm) {
    // Its data is in place already; the receiver is told how much it was.
    payload = {};
    fields.length = 0;
    fields.remote_address = work.length;
  } else if (is_fetched()) {
    payload = {&list, 1};
    fields.flags |= lane_flag::kFetch;
    fields.pieces = static_cast<uint8_t>(count_);
  }
  CopyFault fault;
  switch (lanes.post(fields, payload, awaiting, &fault)) {
    case LanePost::shown:
      return Advance::posted;
    case LanePost::full:
      return Advance::full;
    case LanePost::fault:
      break;
  }
  decide(verdict, CompletionStatus::local_protection_error, Reason::local_memory_gone, "there is no memory at {}",
         fault.address);
  return Advance::failed;
}

}  // namespace verbatim::local
