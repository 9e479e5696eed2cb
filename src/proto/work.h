// Work requests and completions as plain values, without ibv_*. Numbers equal those of <infiniband/verbs.h>
// (src/api/ibverbs/layout_check.cc holds them to it), so that the C ABI converts by cast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/reason.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim {

enum class QueuePairType : uint8_t { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_receive = 10 };

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
  local_invalidate = 7,
  bind_window = 8,
  send_with_invalidate = 9,
  flush = 14,
  atomic_write = 15,
};
std::string_view name(SendOpcode opcode);
// Which operations a type of queue pair has (IBTA volume 1, table 10.9 "supported operations").
bool has_operation(QueuePairType type, SendOpcode opcode);

enum class CompletionStatus : uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  window_bind_error = 6,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  receiver_not_ready_exceeded = 13,
};
std::string_view name(CompletionStatus status);

enum class CompletionOpcode : uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  compare_swap = 3,
  fetch_add = 4,
  bind_window = 5,
  local_invalidate = 6,
  flush = 8,
  atomic_write = 9,
  receive = 128,
  receive_rdma_with_imm = 129,
};

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
inline constexpr uint32_t kFlushGlobal = 256;
inline constexpr uint32_t kFlushPersistent = 512;
// Bits 20-29 are hints that a device may ignore (relaxed ordering is bit 20).
inline constexpr uint32_t kOptional = 0x3ff00000;
}  // namespace access

// One piece of the user's memory; the layout is ibv_sge's. Address and length in bytes.
struct Sge {
  uint64_t address;
  uint32_t length;
  MemoryKey lkey;
};

// Where a UD message goes: a copy of what the address handle said when the request was posted.
struct DatagramAddress {
  Gid source;
  Gid destination;
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  // The handle's; another than the queue pair's is an error of the request.
  PdId pd;
};

struct AtomicOperands {
  uint64_t compare_add;
  uint64_t swap;
};

struct DatagramTarget {
  DatagramAddress address;
  Qpn qpn;
  uint32_t qkey;
};

// A type 2 window is bound to a range of a region by a request of the queue pair (ibv_post_send(3), IBV_WR_BIND_MW).
struct WindowBind {
  MemoryKey window;   // the key that the window has
  MemoryKey new_key;  // the key that it will have
  MemoryKey region;   // its lkey
  uint64_t address;
  uint64_t length;
  uint32_t access;
};

struct FlushRange {
  uint32_t type;   // IBV_FLUSH_GLOBAL 1, IBV_FLUSH_PERSISTENT 2
  uint32_t level;  // IBV_FLUSH_RANGE 0, IBV_FLUSH_MR 1
  uint64_t length;
};

// What only some opcodes have. compare_swap, fetch_add, and atomic_write (its 8 bytes in compare_add, when there are no
// SGEs): atomic. A UD message: datagram. bind_window: bind. flush: flush.
union WorkOperands {
  constexpr WorkOperands() : atomic{} {}
  constexpr WorkOperands(const AtomicOperands& operands) : atomic(operands) {}
  constexpr WorkOperands(const DatagramTarget& operands) : datagram(operands) {}
  constexpr WorkOperands(const WindowBind& operands) : bind(operands) {}
  constexpr WorkOperands(const FlushRange& operands) : flush(operands) {}

  AtomicOperands atomic;
  DatagramTarget datagram;
  WindowBind bind;
  FlushRange flush;
};

// One send work request. `sges` is borrowed: from the caller until it is queued, then from the queue.
struct SendWork {
  uint64_t work_id = 0;
  SendOpcode opcode = SendOpcode::rdma_write;
  bool signaled = false;
  bool fence = false;
  bool solicited = false;
  // The SGEs point at the queue's copy of the data: no lkey is looked at.
  bool inline_data = false;
  MemoryKey rkey;
  uint64_t remote_address = 0;
  std::span<const Sge> sges;
  // The sum of the SGEs' lengths.
  uint64_t length = 0;
  // Immediate data as it lies in memory, or the key that send_with_invalidate or local_invalidate names.
  uint32_t immediate = 0;
  // XRC: the receiving process's shared receive queue.
  uint32_t shared_queue = 0;
  WorkOperands operands;
};

// ibv_wc_flags.
namespace completion_flag {
inline constexpr uint32_t kGlobalRoute = 1;
inline constexpr uint32_t kImmediate = 2;
inline constexpr uint32_t kInvalidated = 8;
}  // namespace completion_flag

struct Completion {
  uint64_t work_id = 0;
  CompletionStatus status = CompletionStatus::success;
  CompletionOpcode opcode = CompletionOpcode::send;
  Reason reason = Reason::none;
  uint32_t byte_length = 0;
  // The queue pair that it is of: for a receive the local one.
  Qpn qpn;
  // A receive's: immediate data as it lies in memory, or the key that was invalidated (`flags` says which); the sender
  // of a UD message.
  uint32_t immediate = 0;
  Qpn source;
  uint32_t flags = 0;
  uint8_t service_level = 0;
  // A receive whose message asked for a solicited event. Errors always count as solicited.
  bool solicited = false;
  // When it was added to its completion queue; set by queues that were asked to.
  Instant added_at;
};

}  // namespace verbatim
