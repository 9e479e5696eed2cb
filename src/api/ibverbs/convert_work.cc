#include "api/ibverbs/convert_work.h"

#include <cerrno>

#include "api/ibverbs/objects.h"

namespace verbatim::api {

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
static_assert(static_cast<int>(SendOpcode::rdma_write_with_imm) == IBV_WR_RDMA_WRITE_WITH_IMM);
static_assert(static_cast<int>(SendOpcode::send_with_imm) == IBV_WR_SEND_WITH_IMM);
static_assert(static_cast<int>(SendOpcode::rdma_read) == IBV_WR_RDMA_READ);
static_assert(static_cast<int>(SendOpcode::atomic_compare_swap) == IBV_WR_ATOMIC_CMP_AND_SWP);
static_assert(static_cast<int>(SendOpcode::atomic_fetch_add) == IBV_WR_ATOMIC_FETCH_AND_ADD);
static_assert(static_cast<int>(SendOpcode::local_invalidate) == IBV_WR_LOCAL_INV);
static_assert(static_cast<int>(SendOpcode::bind_window) == IBV_WR_BIND_MW);
static_assert(static_cast<int>(SendOpcode::send_with_invalidate) == IBV_WR_SEND_WITH_INV);
static_assert(static_cast<int>(SendOpcode::atomic_write) == IBV_WR_ATOMIC_WRITE);
static_assert(static_cast<int>(QueuePairType::ud) == IBV_QPT_UD);
static_assert(static_cast<int>(QueuePairType::xrc_send) == IBV_QPT_XRC_SEND);
static_assert(static_cast<int>(QueuePairType::xrc_receive) == IBV_QPT_XRC_RECV);

std::span<const Sge> from_c(const ibv_sge* sges, size_t count) { return {reinterpret_cast<const Sge*>(sges), count}; }

model::ReceiveWork from_c(const ibv_recv_wr& wr) {
  return {wr.wr_id, from_c(wr.sg_list, static_cast<size_t>(wr.num_sge))};
}

WindowBind from_c(const ibv_mw& window, uint32_t new_key, const ibv_mw_bind_info& info) {
  return {.window = {window.rkey},
          .new_key = {new_key},
          .region = {info.mr ? info.mr->lkey : 0},
          .address = info.addr,
          .length = info.length,
          .access = info.mw_access_flags};
}

uint64_t total(std::span<const Sge> sges) {
  uint64_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  return length;
}

DatagramTarget from_c(ibv_ah& handle, uint32_t qpn, uint32_t qkey) {
  return {object_of(&handle).impl->address(), {qpn}, qkey};
}

Status convert(const ibv_send_wr& wr, QueuePairType type, uint32_t max_sges, SendWork& work) {
  work = {.work_id = wr.wr_id,
          .opcode = static_cast<SendOpcode>(wr.opcode),
          .signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0,
          .fence = (wr.send_flags & IBV_SEND_FENCE) != 0,
          .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
          .inline_data = (wr.send_flags & IBV_SEND_INLINE) != 0};
  if (type == QueuePairType::xrc_send) work.shared_queue = wr.qp_type.xrc.remote_srqn;

  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
      work.rkey = {wr.wr.rdma.rkey};
      work.remote_address = wr.wr.rdma.remote_addr;
      work.immediate = wr.imm_data;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      work.rkey = {wr.wr.atomic.rkey};
      work.remote_address = wr.wr.atomic.remote_addr;
      work.operands = AtomicOperands{wr.wr.atomic.compare_add, wr.wr.atomic.swap};
      break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      work.immediate = wr.opcode == IBV_WR_SEND_WITH_INV ? wr.invalidate_rkey : wr.imm_data;
      if (type == QueuePairType::ud) {
        if (!wr.wr.ud.ah) return {EINVAL};
        work.operands = from_c(*wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
      }
      break;
    case IBV_WR_LOCAL_INV:
      work.immediate = wr.invalidate_rkey;
      work.inline_data = false;
      return Status::success();  // what it says of SGEs is not looked at
    case IBV_WR_BIND_MW:
      if (!wr.bind_mw.mw) return {EINVAL};
      work.operands = from_c(*wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
      work.inline_data = false;
      return Status::success();
    default:
      return {EINVAL};
  }
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > max_sges) return {EINVAL};
  work.sges = from_c(wr.sg_list, static_cast<size_t>(wr.num_sge));
  work.length = total(work.sges);
  return Status::success();
}

}  // namespace verbatim::api
