#include "model/qp_transitions.h"

#include <cerrno>
#include <span>

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

// To RESET and to ERR any state goes, with nothing; no table has these rows. A transition that is not there is not
// allowed. SQE is entered by a failing request only, and only where a lost message breaks no promise: UC and UD.

constexpr uint32_t kPort = kPkeyIndex | kPortNumber;

constexpr Row kReliableConnected[] = {
    {reset, init, kPort | kAccess, 0},
    {init, init, 0, kPort | kAccess},
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

constexpr Row kUnreliableConnected[] = {
    {reset, init, kPort | kAccess, 0},
    {init, init, 0, kPort | kAccess},
    {init, rtr, kAddress | kPathMtu | kDestination | kReceivePsn, kAlternatePath | kAccess | kPkeyIndex},
    {rtr, rts, kSendPsn, kCurrentState | kAccess | kAlternatePath | kPathMigration},
    {rts, rts, 0, kCurrentState | kAccess | kAlternatePath | kPathMigration},
    {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0, kAddress | kAlternatePath | kAccess | kPkeyIndex | kPathMigration},
    {sqd, rts, 0, kCurrentState | kAccess | kAlternatePath | kPathMigration},
    {sqe, rts, 0, kCurrentState | kAccess},
};

constexpr Row kUnreliableDatagram[] = {
    {reset, init, kPort | kQkey, 0},      {init, init, 0, kPort | kQkey},
    {init, rtr, 0, kPkeyIndex | kQkey},   {rtr, rts, kSendPsn, kCurrentState | kQkey},
    {rts, rts, 0, kCurrentState | kQkey}, {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0, kPkeyIndex | kQkey},    {sqd, rts, 0, kCurrentState | kQkey},
    {sqe, rts, 0, kCurrentState | kQkey},
};

// Only sends, so it answers no READ and is nobody's slow receiver.
constexpr Row kExtendedSend[] = {
    {reset, init, kPort | kAccess, 0},
    {init, init, 0, kPort | kAccess},
    {init, rtr, kAddress | kPathMtu | kDestination | kReceivePsn, kAlternatePath | kAccess | kPkeyIndex},
    {rtr, rts, kTimeout | kRetryCount | kRnrRetry | kSendPsn | kInitiatorDepth,
     kCurrentState | kAccess | kAlternatePath | kPathMigration},
    {rts, rts, 0, kCurrentState | kAccess | kAlternatePath | kPathMigration},
    {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0,
     kAddress | kTimeout | kRetryCount | kRnrRetry | kInitiatorDepth | kAlternatePath | kAccess | kPkeyIndex |
         kPathMigration | kPortNumber},
    {sqd, rts, 0, kCurrentState | kAccess | kAlternatePath | kPathMigration},
};

// Only receives, so it retries nothing.
constexpr Row kExtendedReceive[] = {
    {reset, init, kPort | kAccess, 0},
    {init, init, 0, kPort | kAccess},
    {init, rtr, kAddress | kPathMtu | kDestination | kReceivePsn | kResponderDepth | kMinRnrTimer,
     kAlternatePath | kAccess | kPkeyIndex},
    {rtr, rts, kTimeout | kSendPsn, kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
    {rts, rts, 0, kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
    {rts, sqd, 0, kSqdNotify},
    {sqd, sqd, 0,
     kAddress | kTimeout | kResponderDepth | kAlternatePath | kAccess | kPkeyIndex | kMinRnrTimer | kPathMigration |
         kPortNumber},
    {sqd, rts, 0, kCurrentState | kAccess | kAlternatePath | kMinRnrTimer | kPathMigration},
};

std::span<const Row> rows_of(QueuePairType type) {
  switch (type) {
    case QueuePairType::rc:
      return kReliableConnected;
    case QueuePairType::uc:
      return kUnreliableConnected;
    case QueuePairType::ud:
      return kUnreliableDatagram;
    case QueuePairType::xrc_send:
      return kExtendedSend;
    case QueuePairType::xrc_receive:
      return kExtendedReceive;
  }
  return {};
}

}  // namespace

uint32_t meaningful(QueuePairType type, uint32_t mask) {
  switch (type) {
    case QueuePairType::xrc_send:
      return mask & ~(kResponderDepth | kMinRnrTimer);
    case QueuePairType::xrc_receive:
      return mask & ~(kInitiatorDepth | kRetryCount | kRnrRetry);
    default:
      return mask;
  }
}

Status check_transition(QueuePairType type, QueuePairState from, QueuePairState to, uint32_t mask) {
  mask &= ~kState;
  if (to == reset || to == err) return mask == 0 || mask == kCurrentState ? Status::success() : Status{EINVAL};
  for (const Row& row : rows_of(type)) {
    if (row.from != from || row.to != to) continue;
    const bool complete = (mask & row.required) == row.required;
    const bool allowed = (mask & ~(row.required | row.optional)) == 0;
    return complete && allowed ? Status::success() : Status{EINVAL};
  }
  return {EINVAL};
}

}  // namespace verbatim::model
