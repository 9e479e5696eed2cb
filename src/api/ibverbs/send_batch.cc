#include "api/ibverbs/send_batch.h"

#include <cerrno>

#include "api/ibverbs/convert_work.h"

namespace verbatim::api {
namespace {

bool may_be_inline(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::send:
    case SendOpcode::send_with_imm:
    case SendOpcode::send_with_invalidate:
    case SendOpcode::rdma_write:
    case SendOpcode::rdma_write_with_imm:
      return true;
    default:
      return false;
  }
}

bool has_sges(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::rdma_read:
    case SendOpcode::atomic_compare_swap:
    case SendOpcode::atomic_fetch_add:
      return true;
    default:
      return may_be_inline(opcode);
  }
}

bool has_target(SendOpcode opcode) {
  return opcode != SendOpcode::local_invalidate && opcode != SendOpcode::bind_window;
}

}  // namespace

void SendBatch::lock() {
  mutex_.lock();
  error_ = 0;
  works_.clear();
  parts_.clear();
  sges_.clear();
  inline_data_.clear();
}

void SendBatch::add(const SendWork& work) {
  works_.push_back(work);
  parts_.push_back({.first_sge = sges_.size()});
}

void SendBatch::set_sges(std::span<const Sge> sges) {
  if (!has_request()) return;
  if (sges.size() > max_sges_ || !has_sges(works_.back().opcode)) return fail(EINVAL);
  sges_.resize(parts_.back().first_sge);
  sges_.insert(sges_.end(), sges.begin(), sges.end());
  works_.back().inline_data = false;
  parts_.back().sge_count = sges.size();
}

void SendBatch::set_inline_data(std::span<const Sge> pieces) {
  if (!has_request()) return;
  const uint64_t length = total(pieces);
  if (length > max_inline_data_ || !may_be_inline(works_.back().opcode)) return fail(EINVAL);
  sges_.resize(parts_.back().first_sge);
  sges_.push_back({0, static_cast<uint32_t>(length), {}});
  parts_.back().inline_begin = inline_data_.size();
  for (const Sge& piece : pieces) {
    const auto* bytes = reinterpret_cast<const std::byte*>(piece.address);
    inline_data_.insert(inline_data_.end(), bytes, bytes + piece.length);
  }
  works_.back().inline_data = true;
  parts_.back().sge_count = 1;
}

void SendBatch::set_datagram(const DatagramTarget& target) {
  if (!has_request()) return;
  if (type_ != QueuePairType::ud) return fail(EINVAL);
  works_.back().operands = target;
  parts_.back().addressed = true;
}

void SendBatch::set_shared_queue(uint32_t number) {
  if (!has_request()) return;
  if (type_ != QueuePairType::xrc_send) return fail(EINVAL);
  works_.back().shared_queue = number;
  parts_.back().addressed = true;
}

void SendBatch::fail(int error) {
  if (error_ == 0) error_ = error;
}

bool SendBatch::has_request() {
  if (works_.empty()) fail(EINVAL);
  return error_ == 0;
}

Result<std::span<const SendWork>> SendBatch::finish() {
  const bool needs_address = type_ == QueuePairType::ud || type_ == QueuePairType::xrc_send;
  for (size_t i = 0; i < works_.size() && error_ == 0; ++i) {
    SendWork& work = works_[i];
    const Parts& parts = parts_[i];
    if (needs_address && has_target(work.opcode) && !parts.addressed) fail(EINVAL);
    const std::span<Sge> sges = std::span(sges_).subspan(parts.first_sge, parts.sge_count);
    if (work.inline_data) sges[0].address = reinterpret_cast<uint64_t>(inline_data_.data()) + parts.inline_begin;
    work.sges = sges;
    work.length = total(sges);
  }
  if (error_ != 0) return Status{error_};
  return std::span<const SendWork>(works_);
}

}  // namespace verbatim::api
