// Requests as ibv_post_send(3) takes them, as values of proto/. What they point at (SGEs) stays the caller's. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"
#include "model/receive_queue.h"
#include "proto/work.h"

namespace verbatim::api {

std::span<const Sge> from_c(const ibv_sge* sges, size_t count);
WindowBind from_c(const ibv_mw& window, uint32_t new_key, const ibv_mw_bind_info& info);
// num_sge is not negative.
model::ReceiveWork from_c(const ibv_recv_wr& wr);
// Bytes, which may be more than 32 bits hold.
uint64_t total(std::span<const Sge> sges);

// Where a datagram goes; the handle's answer is copied.
DatagramTarget from_c(ibv_ah& handle, uint32_t qpn, uint32_t qkey);

// EINVAL: an opcode that no queue pair of this device has, more than `max_sges` or fewer than 0 SGEs, an address handle
// or a window that is missing. Whether a queue pair of this type has the opcode is not looked at.
Status convert(const ibv_send_wr& wr, QueuePairType type, uint32_t max_sges, SendWork& work);

}  // namespace verbatim::api
