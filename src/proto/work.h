// Work requests and completions as plain values, without ibv_*. Numbers equal those of <infiniband/verbs.h>
// (src/api/ibverbs/layout_check.cc holds them to it), so that the C ABI converts by cast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/reason.h"
#include "base/types.h"

namespace verbatim {

enum class QueuePairType : uint8_t { rc = 2, uc = 3, ud = 4 };

enum class QueuePairState : uint8_t { reset = 0, init = 1, rtr = 2, rts = 3, sqd = 4, sqe = 5, err = 6 };
std::string_view name(QueuePairState state);

enum class SendOpcode : uint8_t {
  rdma_write = 0,
  rdma_write_with_imm = 1,
  send = 2,
  send_with_imm = 3,
  rdma_read = 4,
  atomic_compare_swap = 5,
  atomic_fetch_add = 6,
};
std::string_view name(SendOpcode opcode);

enum class CompletionStatus : uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
};
std::string_view name(CompletionStatus status);

enum class CompletionOpcode : uint8_t { send = 0, rdma_write = 1, rdma_read = 2, receive = 128 };

// ibv_access_flags.
namespace access {
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteWrite = 2;
inline constexpr uint32_t kRemoteRead = 4;
inline constexpr uint32_t kRemoteAtomic = 8;
inline constexpr uint32_t kWindowBind = 16;
inline constexpr uint32_t kZeroBased = 32;
inline constexpr uint32_t kOnDemand = 64;
inline constexpr uint32_t kHugeTlb = 128;
// Bits 20-29 are hints that a device may ignore (relaxed ordering is bit 20).
inline constexpr uint32_t kOptional = 0x3ff00000;
}  // namespace access

// One piece of the user's memory; the layout is ibv_sge's. Address and length in bytes.
struct Sge {
  uint64_t address;
  uint32_t length;
  MemoryKey lkey;
};

// One send work request. `sges` is borrowed: from the caller until it is queued, then from the queue.
struct SendWork {
  uint64_t work_id = 0;
  SendOpcode opcode = SendOpcode::rdma_write;
  bool signaled = false;
  bool fence = false;
  // The SGEs point at the queue's copy of the data: no lkey is looked at.
  bool inline_data = false;
  MemoryKey rkey;
  uint64_t remote_address = 0;
  std::span<const Sge> sges;
  // The sum of the SGEs' lengths.
  uint64_t length = 0;
};

struct Completion {
  uint64_t work_id = 0;
  CompletionStatus status = CompletionStatus::success;
  CompletionOpcode opcode = CompletionOpcode::send;
  Reason reason = Reason::none;
  uint32_t byte_length = 0;
  Qpn qpn;
};

}  // namespace verbatim
