// An operation over a connected transport, as the parameter of a script.
#pragma once

#include <string>
#include <tuple>

#include "conformance/support/pair.h"

namespace verbatim::conformance {

// All that an operation may need.
inline constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;

struct Operation {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;

  bool extended() const { return type == IBV_QPT_XRC_SEND; }
  ibv_qp_type peer_type() const { return extended() ? IBV_QPT_XRC_RECV : type; }
  bool is_atomic() const { return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD; }
  bool takes_receive() const { return opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
  bool needs_depth() const { return is_atomic() || opcode == IBV_WR_RDMA_READ; }
  unsigned right() const {
    if (is_atomic()) return IBV_ACCESS_REMOTE_ATOMIC;
    return opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  }
};

inline std::string name(const Operation& operation) {
  return std::string(transport_name(operation.type)) + std::string(opcode_name(operation.opcode));
}

inline std::string operation_name(const testing::TestParamInfo<std::tuple<Setting, Operation>>& info) {
  return name(std::get<0>(info.param)) + name(std::get<1>(info.param));
}

}  // namespace verbatim::conformance
