#include "proto/work.h"

namespace verbatim {

std::string_view name(QueuePairState state) {
  constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "an unknown state";
}

std::string_view name(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::rdma_write:
      return "RDMA_WRITE";
    case SendOpcode::rdma_write_with_imm:
      return "RDMA_WRITE_WITH_IMM";
    case SendOpcode::send:
      return "SEND";
    case SendOpcode::send_with_imm:
      return "SEND_WITH_IMM";
    case SendOpcode::rdma_read:
      return "RDMA_READ";
    case SendOpcode::atomic_compare_swap:
      return "ATOMIC_CMP_AND_SWP";
    case SendOpcode::atomic_fetch_add:
      return "ATOMIC_FETCH_AND_ADD";
    case SendOpcode::local_invalidate:
      return "LOCAL_INV";
    case SendOpcode::bind_window:
      return "BIND_MW";
    case SendOpcode::send_with_invalidate:
      return "SEND_WITH_INV";
    case SendOpcode::flush:
      return "FLUSH";
    case SendOpcode::atomic_write:
      return "ATOMIC_WRITE";
  }
  return "an unknown opcode";
}

bool has_operation(QueuePairType type, SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::send:
    case SendOpcode::send_with_imm:
      return type != QueuePairType::xrc_receive;
    case SendOpcode::rdma_write:
    case SendOpcode::rdma_write_with_imm:
    case SendOpcode::bind_window:
    case SendOpcode::local_invalidate:
      return type == QueuePairType::rc || type == QueuePairType::uc || type == QueuePairType::xrc_send;
    default:
      return type == QueuePairType::rc || type == QueuePairType::xrc_send;
  }
}

std::string_view name(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::success:
      return "SUCCESS";
    case CompletionStatus::local_length_error:
      return "LOC_LEN_ERR";
    case CompletionStatus::local_qp_operation_error:
      return "LOC_QP_OP_ERR";
    case CompletionStatus::local_protection_error:
      return "LOC_PROT_ERR";
    case CompletionStatus::flushed:
      return "WR_FLUSH_ERR";
    case CompletionStatus::window_bind_error:
      return "MW_BIND_ERR";
    case CompletionStatus::remote_invalid_request:
      return "REM_INV_REQ_ERR";
    case CompletionStatus::remote_access_error:
      return "REM_ACCESS_ERR";
    case CompletionStatus::remote_operation_error:
      return "REM_OP_ERR";
    case CompletionStatus::retry_exceeded:
      return "RETRY_EXC_ERR";
    case CompletionStatus::receiver_not_ready_exceeded:
      return "RNR_RETRY_EXC_ERR";
  }
  return "an unknown status";
}

}  // namespace verbatim
