// What <infiniband/verbs.h> says from release 45 on and that of release 44 does not: the numbers and the one member
// that programs built against the newer header use on this library.
#pragma once

#include <infiniband/verbs.h>

namespace verbatim::api {

// IBV_WR_FLUSH, IBV_QP_EX_WITH_FLUSH.
inline constexpr auto kFlushOpcode = static_cast<ibv_wr_opcode>(14);
inline constexpr uint64_t kQueuePairWithFlush = 1 << 11;

// Release 45's ibv_qp_ex.
struct QueuePairBase {
  ibv_qp_ex base{};
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type,
                   uint8_t level) = nullptr;
};
static_assert(offsetof(QueuePairBase, wr_flush) == 312 + sizeof(pthread_mutex_t));

}  // namespace verbatim::api
