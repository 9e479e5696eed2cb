// What moves data: the slots behind ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3) and ibv_req_notify_cq(3).
#include "api/ibverbs/convert_work.h"
#include "api/ibverbs/objects.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  model::QueuePair& impl = *object_of(qp).impl;
  const auto type = static_cast<QueuePairType>(qp->qp_type);
  const uint32_t max_sges = impl.capabilities().max_send_sge;
  model::QueuePair::Posting posting(impl);
  for (; wr; wr = wr->next) {
    SendWork work;
    Status status = convert(*wr, type, max_sges, work);
    if (status.ok()) status = posting.send(work);
    if (!status.ok()) {
      *bad_wr = wr;
      return status.error;
    }
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  model::QueuePair& impl = *object_of(qp).impl;
  for (; wr; wr = wr->next) {
    const Status status = wr->num_sge < 0 ? Status{EINVAL} : impl.post_receive(from_c(*wr));
    if (!status.ok()) {
      *bad_wr = wr;
      return status.error;
    }
  }
  return 0;
}

int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc) {
  if (entries < 0) return -1;
  CqObject& object = object_of(cq);
  const int count = object.impl->poll(entries, [&](const Completion& completion) {
    // The P_Key table has one entry; an Ethernet port has no LIDs.
    *wc++ = {.wr_id = completion.work_id,
             .status = static_cast<ibv_wc_status>(completion.status),
             .opcode = static_cast<ibv_wc_opcode>(completion.opcode),
             .vendor_err = static_cast<uint32_t>(completion.reason),
             .byte_len = completion.byte_length,
             .imm_data = completion.immediate,
             .qp_num = completion.qpn.value,
             .src_qp = completion.source.value,
             .wc_flags = completion.flags,
             .pkey_index = 0,
             .slid = 0,
             .sl = completion.service_level,
             .dlid_path_bits = 0};
  });
  object.patience.after(count != 0);
  return count;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  object_of(cq).impl->arm(solicited_only != 0);
  return 0;
}

}  // namespace

static_assert(static_cast<int>(CompletionStatus::retry_exceeded) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(CompletionStatus::remote_access_error) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(CompletionStatus::remote_invalid_request) == IBV_WC_REM_INV_REQ_ERR);
static_assert(static_cast<int>(CompletionStatus::remote_operation_error) == IBV_WC_REM_OP_ERR);
static_assert(static_cast<int>(CompletionStatus::local_protection_error) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(CompletionStatus::local_length_error) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(CompletionStatus::local_qp_operation_error) == IBV_WC_LOC_QP_OP_ERR);
static_assert(static_cast<int>(CompletionStatus::flushed) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(CompletionStatus::window_bind_error) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(CompletionStatus::receiver_not_ready_exceeded) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(CompletionOpcode::rdma_read) == IBV_WC_RDMA_READ);
static_assert(static_cast<int>(CompletionOpcode::local_invalidate) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(CompletionOpcode::atomic_write) == IBV_WC_ATOMIC_WRITE);
static_assert(static_cast<int>(CompletionOpcode::receive) == IBV_WC_RECV);
static_assert(static_cast<int>(CompletionOpcode::receive_rdma_with_imm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(completion_flag::kGlobalRoute == IBV_WC_GRH && completion_flag::kImmediate == IBV_WC_WITH_IMM);
static_assert(completion_flag::kInvalidated == IBV_WC_WITH_INV);
static_assert(static_cast<int>(QueuePairState::err) == IBV_QPS_ERR);
static_assert(access::kRemoteAtomic == IBV_ACCESS_REMOTE_ATOMIC && access::kHugeTlb == IBV_ACCESS_HUGETLB);
static_assert(access::kOptional == IBV_ACCESS_OPTIONAL_RANGE);

void verbatim::api::fill_data_path_slots(verbs_context& context) {
  context.context.ops.post_send = post_send;
  context.context.ops.post_recv = post_recv;
  context.context.ops.poll_cq = poll_cq;
  context.context.ops.req_notify_cq = req_notify_cq;
}
