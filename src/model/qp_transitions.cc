#include "model/qp_transitions.h"

#include <cerrno>

namespace verbatim::model {
namespace {

using namespace attribute;
using enum QueuePairState;

struct Row {
  QueuePairState from;
  QueuePairState to;
  uint32_t required;
  uint32_t optional;
};

// RC. To RESET and to ERR any state goes, with nothing.
constexpr Row kReliableConnected[] = {
    {reset, init, kPkeyIndex | kPortNumber | kAccess, 0},
    {init, init, 0, kPkeyIndex | kPortNumber | kAccess},
    {init, rtr, kAddress | kPathMtu | kDestination | kReceivePsn | kResponderDepth | kMinRnrTimer,
     kAlternatePath | kAccess | kPkeyIndex},
    {rtr, rts, kTimeout | kRetryCount | kRnrRetry | kSendPsn | kInitiatorDepth,
     kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
    {rts, rts, 0, kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
    {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0,
     kAddress | kTimeout | kRetryCount | kRnrRetry | kInitiatorDepth | kResponderDepth | kAlternatePath | kAccess |
         kPkeyIndex | kMinRnrTimer | kPathMigration | kPortNumber},
    {sqd, rts, 0, kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
};

}  // namespace

Status check_transition(QueuePairType type, QueuePairState from, QueuePairState to, uint32_t mask) {
  mask &= ~kState;
  if (to == reset || to == err) return mask == 0 || mask == kCurrentState ? Status::success() : Status{EINVAL};
  if (type != QueuePairType::rc) return {EINVAL};
  for (const Row& row : kReliableConnected) {
    if (row.from != from || row.to != to) continue;
    const bool complete = (mask & row.required) == row.required;
    const bool allowed = (mask & ~(row.required | row.optional)) == 0;
    return complete && allowed ? Status::success() : Status{EINVAL};
  }
  return {EINVAL};
}

}  // namespace verbatim::model
