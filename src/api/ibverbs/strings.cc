// Names of enumerators (ibv_event_type_str(3)). Programs print them and people search logs for them, so the words are
// those that users of libibverbs 44 know. Never NULL: "unknown" for a value without a name. The strings live for ever.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>

#include "base/export.h"

namespace {

constexpr const char* kUnknown = "unknown";

constexpr auto kNodeTypes = [] {
  std::array<const char*, IBV_NODE_UNSPECIFIED + 1> names{};
  names[IBV_NODE_CA] = "InfiniBand channel adapter";
  names[IBV_NODE_SWITCH] = "InfiniBand switch";
  names[IBV_NODE_ROUTER] = "InfiniBand router";
  names[IBV_NODE_RNIC] = "iWARP NIC";
  names[IBV_NODE_USNIC] = "usNIC";
  names[IBV_NODE_USNIC_UDP] = "usNIC UDP";
  names[IBV_NODE_UNSPECIFIED] = "unspecified";
  return names;
}();

constexpr auto kPortStates = [] {
  std::array<const char*, IBV_PORT_ACTIVE_DEFER + 1> names{};
  names[IBV_PORT_NOP] = "no state change (NOP)";
  names[IBV_PORT_DOWN] = "down";
  names[IBV_PORT_INIT] = "init";
  names[IBV_PORT_ARMED] = "armed";
  names[IBV_PORT_ACTIVE] = "active";
  names[IBV_PORT_ACTIVE_DEFER] = "active defer";
  return names;
}();

constexpr auto kEventTypes = [] {
  std::array<const char*, IBV_EVENT_WQ_FATAL + 1> names{};
  names[IBV_EVENT_CQ_ERR] = "CQ error";
  names[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error";
  names[IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error";
  names[IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error";
  names[IBV_EVENT_COMM_EST] = "communication established";
  names[IBV_EVENT_SQ_DRAINED] = "send queue drained";
  names[IBV_EVENT_PATH_MIG] = "path migrated";
  names[IBV_EVENT_PATH_MIG_ERR] = "path migration request error";
  names[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error";
  names[IBV_EVENT_PORT_ACTIVE] = "port active";
  names[IBV_EVENT_PORT_ERR] = "port error";
  names[IBV_EVENT_LID_CHANGE] = "LID change";
  names[IBV_EVENT_PKEY_CHANGE] = "P_Key change";
  names[IBV_EVENT_SM_CHANGE] = "SM change";
  names[IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error";
  names[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached";
  names[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached";
  names[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration";
  names[IBV_EVENT_GID_CHANGE] = "GID table change";
  names[IBV_EVENT_WQ_FATAL] = "WQ fatal";
  return names;
}();

constexpr auto kCompletionStatuses = [] {
  std::array<const char*, IBV_WC_TM_RNDV_INCOMPLETE + 1> names{};
  names[IBV_WC_SUCCESS] = "success";
  names[IBV_WC_LOC_LEN_ERR] = "local length error";
  names[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error";
  names[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error";
  names[IBV_WC_LOC_PROT_ERR] = "local protection error";
  names[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error";
  names[IBV_WC_MW_BIND_ERR] = "memory management operation error";
  names[IBV_WC_BAD_RESP_ERR] = "bad response error";
  names[IBV_WC_LOC_ACCESS_ERR] = "local access error";
  names[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error";
  names[IBV_WC_REM_ACCESS_ERR] = "remote access error";
  names[IBV_WC_REM_OP_ERR] = "remote operation error";
  names[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded";
  names[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded";
  names[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error";
  names[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request";
  names[IBV_WC_REM_ABORT_ERR] = "aborted error";
  names[IBV_WC_INV_EECN_ERR] = "invalid EE context number";
  names[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state";
  names[IBV_WC_FATAL_ERR] = "fatal error";
  names[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error";
  names[IBV_WC_GENERAL_ERR] = "general error";
  names[IBV_WC_TM_ERR] = "TM error";
  names[IBV_WC_TM_RNDV_INCOMPLETE] = "TM software rendezvous";
  return names;
}();

// value: any number at all, as the caller's enum may hold one that is no enumerator.
template <size_t size>
const char* name_in(const std::array<const char*, size>& names, long value) {
  if (value < 0 || static_cast<size_t>(value) >= size) return kUnknown;
  const char* name = names[static_cast<size_t>(value)];
  return name != nullptr ? name : kUnknown;
}

}  // namespace

VERBATIM_EXPORT const char* ibv_node_type_str(enum ibv_node_type node_type) { return name_in(kNodeTypes, node_type); }

VERBATIM_EXPORT const char* ibv_port_state_str(enum ibv_port_state port_state) {
  return name_in(kPortStates, port_state);
}

VERBATIM_EXPORT const char* ibv_event_type_str(enum ibv_event_type event) { return name_in(kEventTypes, event); }

VERBATIM_EXPORT const char* ibv_wc_status_str(enum ibv_wc_status status) {
  return name_in(kCompletionStatuses, status);
}
