#include "proto/work.h"

namespace verbatim {

std::string_view name(QueuePairState state) {
  constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "an unknown state";
}

std::string_view name(SendOpcode opcode) {
  constexpr std::string_view kNames[] = {"RDMA_WRITE",          "RDMA_WRITE_WITH_IMM", "SEND",
                                         "SEND_WITH_IMM",       "RDMA_READ",           "ATOMIC_CMP_AND_SWP",
                                         "ATOMIC_FETCH_AND_ADD"};
  const auto index = static_cast<size_t>(opcode);
  return index < std::size(kNames) ? kNames[index] : "an unknown opcode";
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
    case CompletionStatus::remote_invalid_request:
      return "REM_INV_REQ_ERR";
    case CompletionStatus::remote_access_error:
      return "REM_ACCESS_ERR";
    case CompletionStatus::remote_operation_error:
      return "REM_OP_ERR";
    case CompletionStatus::retry_exceeded:
      return "RETRY_EXC_ERR";
  }
  return "an unknown status";
}

}  // namespace verbatim
