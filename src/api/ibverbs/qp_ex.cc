// Posting by function calls: ibv_wr_start(3) and the builders and setters of its manual, ibv_qp_to_qp_ex(3).
#include "api/ibverbs/qp_ex.h"

#include "api/ibverbs/convert_work.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

SendBatch& batch_of(ibv_qp_ex* qp) { return *object_of(qp).batch; }

// What every request has: it is completed by the caller's members of ibv_qp_ex as they are now.
SendWork begin(const ibv_qp_ex* qp, SendOpcode opcode) {
  return {.work_id = qp->wr_id,
          .opcode = opcode,
          .signaled = (qp->wr_flags & IBV_SEND_SIGNALED) != 0,
          .fence = (qp->wr_flags & IBV_SEND_FENCE) != 0,
          .solicited = (qp->wr_flags & IBV_SEND_SOLICITED) != 0};
}

void add_remote(ibv_qp_ex* qp, SendOpcode opcode, uint32_t rkey, uint64_t address, const WorkOperands& operands = {},
                uint32_t immediate = 0) {
  SendWork work = begin(qp, opcode);
  work.rkey = {rkey};
  work.remote_address = address;
  work.immediate = immediate;
  work.operands = operands;
  batch_of(qp).add(work);
}

void add_local(ibv_qp_ex* qp, SendOpcode opcode, uint32_t immediate = 0) {
  SendWork work = begin(qp, opcode);
  work.immediate = immediate;
  batch_of(qp).add(work);
}

// ---- builders ----

void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  add_remote(qp, SendOpcode::rdma_write, rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 immediate) {
  add_remote(qp, SendOpcode::rdma_write_with_imm, rkey, address, {}, immediate);
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  add_remote(qp, SendOpcode::rdma_read, rkey, address);
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
  add_remote(qp, SendOpcode::atomic_compare_swap, rkey, address, AtomicOperands{compare, swap});
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) {
  add_remote(qp, SendOpcode::atomic_fetch_add, rkey, address, AtomicOperands{add, 0});
}
void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, const void* bytes) {
  AtomicOperands operands{};
  std::memcpy(&operands.compare_add, bytes, sizeof operands.compare_add);
  add_remote(qp, SendOpcode::atomic_write, rkey, address, operands);
}
void wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level) {
  constexpr uint8_t kTypes = 1 | 2;  // IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT
  constexpr uint8_t kWholeRegion = 1;
  if (type == 0 || (type & ~kTypes) || level > kWholeRegion) batch_of(qp).fail(EINVAL);
  add_remote(qp, SendOpcode::flush, rkey, address, FlushRange{type, level, length});
}

void wr_send(ibv_qp_ex* qp) { add_local(qp, SendOpcode::send); }
void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) { add_local(qp, SendOpcode::send_with_imm, immediate); }
void wr_send_inv(ibv_qp_ex* qp, uint32_t key) { add_local(qp, SendOpcode::send_with_invalidate, key); }
void wr_local_inv(ibv_qp_ex* qp, uint32_t key) { add_local(qp, SendOpcode::local_invalidate, key); }
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* window, uint32_t key, const ibv_mw_bind_info* info) {
  if (!window || !info) return batch_of(qp).fail(EINVAL);
  SendWork work = begin(qp, SendOpcode::bind_window);
  work.operands = from_c(*window, key, *info);
  batch_of(qp).add(work);
}

// ---- setters ----

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const Sge sge{address, length, {lkey}};
  batch_of(qp).set_sges({&sge, 1});
}
void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* sges) { batch_of(qp).set_sges(from_c(sges, count)); }

void wr_set_inline_data(ibv_qp_ex* qp, void* address, size_t length) {
  // What an Sge cannot say is beyond any limit.
  if (length > UINT32_MAX) return batch_of(qp).fail(EINVAL);
  const Sge piece{reinterpret_cast<uint64_t>(address), static_cast<uint32_t>(length), {}};
  batch_of(qp).set_inline_data({&piece, 1});
}
void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) {
  std::vector<Sge> pieces;
  for (const ibv_data_buf& buffer : std::span(buffers, count)) {
    if (buffer.length > UINT32_MAX) return batch_of(qp).fail(EINVAL);
    pieces.push_back({reinterpret_cast<uint64_t>(buffer.addr), static_cast<uint32_t>(buffer.length), {}});
  }
  batch_of(qp).set_inline_data(pieces);
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* handle, uint32_t qpn, uint32_t qkey) {
  if (!handle) return batch_of(qp).fail(EINVAL);
  batch_of(qp).set_datagram(from_c(*handle, qpn, qkey));
}
void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) { batch_of(qp).set_shared_queue(number); }

// ---- the critical region ----

void wr_start(ibv_qp_ex* qp) { batch_of(qp).lock(); }

void wr_abort(ibv_qp_ex* qp) { batch_of(qp).unlock(); }

Status post(QpObject& object) {
  const Result<std::span<const SendWork>> works = object.batch->finish();
  if (!works.ok()) return works.status();
  model::QueuePair::Posting posting(*object.impl);
  for (const SendWork& work : works.value()) {
    if (const Status status = posting.send(work); !status.ok()) {
      posting.withdraw();
      return status;
    }
  }
  return Status::success();
}

int wr_complete(ibv_qp_ex* qp) {
  const Status status = post(object_of(qp));
  batch_of(qp).unlock();
  return status.error;
}

// ---- which builders there are ----

struct Row {
  uint64_t flag;
  SendOpcode opcode;
  void (*install)(QueuePairBase& qp);
};

constexpr Row kBuilders[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, SendOpcode::rdma_write, [](auto& qp) { qp.base.wr_rdma_write = wr_rdma_write; }},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, SendOpcode::rdma_write_with_imm,
     [](auto& qp) { qp.base.wr_rdma_write_imm = wr_rdma_write_imm; }},
    {IBV_QP_EX_WITH_SEND, SendOpcode::send, [](auto& qp) { qp.base.wr_send = wr_send; }},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, SendOpcode::send_with_imm, [](auto& qp) { qp.base.wr_send_imm = wr_send_imm; }},
    {IBV_QP_EX_WITH_RDMA_READ, SendOpcode::rdma_read, [](auto& qp) { qp.base.wr_rdma_read = wr_rdma_read; }},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, SendOpcode::atomic_compare_swap,
     [](auto& qp) { qp.base.wr_atomic_cmp_swp = wr_atomic_cmp_swp; }},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, SendOpcode::atomic_fetch_add,
     [](auto& qp) { qp.base.wr_atomic_fetch_add = wr_atomic_fetch_add; }},
    {IBV_QP_EX_WITH_LOCAL_INV, SendOpcode::local_invalidate, [](auto& qp) { qp.base.wr_local_inv = wr_local_inv; }},
    {IBV_QP_EX_WITH_BIND_MW, SendOpcode::bind_window, [](auto& qp) { qp.base.wr_bind_mw = wr_bind_mw; }},
    {IBV_QP_EX_WITH_SEND_WITH_INV, SendOpcode::send_with_invalidate,
     [](auto& qp) { qp.base.wr_send_inv = wr_send_inv; }},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, SendOpcode::atomic_write,
     [](auto& qp) { qp.base.wr_atomic_write = wr_atomic_write; }},
    {kQueuePairWithFlush, SendOpcode::flush, [](auto& qp) { qp.wr_flush = wr_flush; }},
};

}  // namespace

Status verbatim::api::check_builders(QueuePairType type, uint64_t operations) {
  for (const Row& row : kBuilders) {
    if (has_operation(type, row.opcode)) operations &= ~row.flag;
  }
  return operations == 0 ? Status::success() : Status{EOPNOTSUPP};
}

void verbatim::api::install_builders(QpObject& object, QueuePairType type, uint64_t operations) {
  const model::QueuePairCapabilities& capabilities = object.impl->capabilities();
  object.batch = std::make_unique<SendBatch>(type, capabilities.max_send_sge, capabilities.max_inline_data);
  for (const Row& row : kBuilders) {
    if (operations & row.flag) row.install(object.extended);
  }
  ibv_qp_ex& base = object.extended.base;
  base.wr_set_ud_addr = wr_set_ud_addr;
  base.wr_set_xrc_srqn = wr_set_xrc_srqn;
  base.wr_set_inline_data = wr_set_inline_data;
  base.wr_set_inline_data_list = wr_set_inline_data_list;
  base.wr_set_sge = wr_set_sge;
  base.wr_set_sge_list = wr_set_sge_list;
  base.wr_start = wr_start;
  base.wr_complete = wr_complete;
  base.wr_abort = wr_abort;
}

extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  QpObject& object = object_of(qp);
  return object.batch ? &object.extended.base : nullptr;
}
