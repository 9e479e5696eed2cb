// The queue pair state table: which attributes modify_qp must and may get for each transition (IBTA volume 1, 10.3.1;
// ibv_modify_qp(3)). Pure data and one check.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "proto/work.h"

namespace verbatim::model {

// ibv_qp_attr_mask.
namespace attribute {
inline constexpr uint32_t kState = 1 << 0;
inline constexpr uint32_t kCurrentState = 1 << 1;
inline constexpr uint32_t kSqdNotify = 1 << 2;
inline constexpr uint32_t kAccess = 1 << 3;
inline constexpr uint32_t kPkeyIndex = 1 << 4;
inline constexpr uint32_t kPortNumber = 1 << 5;
inline constexpr uint32_t kQkey = 1 << 6;
inline constexpr uint32_t kAddress = 1 << 7;
inline constexpr uint32_t kPathMtu = 1 << 8;
inline constexpr uint32_t kTimeout = 1 << 9;
inline constexpr uint32_t kRetryCount = 1 << 10;
inline constexpr uint32_t kRnrRetry = 1 << 11;
inline constexpr uint32_t kReceivePsn = 1 << 12;
inline constexpr uint32_t kInitiatorDepth = 1 << 13;
inline constexpr uint32_t kAlternatePath = 1 << 14;
inline constexpr uint32_t kMinRnrTimer = 1 << 15;
inline constexpr uint32_t kSendPsn = 1 << 16;
inline constexpr uint32_t kResponderDepth = 1 << 17;
inline constexpr uint32_t kPathMigration = 1 << 18;
inline constexpr uint32_t kCapabilities = 1 << 19;
inline constexpr uint32_t kDestination = 1 << 20;
inline constexpr uint32_t kRateLimit = 1 << 25;
}  // namespace attribute

// `mask` without what a half of XRC has no use for. Programs connect both halves with the attributes of RC, and kernels
// take no notice of the others.
uint32_t meaningful(QueuePairType type, uint32_t mask);

// Success when a queue pair of this type may go from `from` to `to` with exactly the attributes in `mask`: all that
// are required, none that is neither required nor optional. EINVAL otherwise.
Status check_transition(QueuePairType type, QueuePairState from, QueuePairState to, uint32_t mask);

}  // namespace verbatim::model
