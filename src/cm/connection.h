// One connection as its communication manager sees it (IBTA 12.9), either side. Messages go in and come out as values;
// time is an argument.
//
//                                idle
//         requests (REQ) ┌────────┴────────┐ REQ arrives
//                    req_sent        req_received ──reject: REJ──▶ idle
//                        │ REP             │ accept: REP
//                  rep_received        rep_sent ──reject: REJ──▶ timewait
//          establish: RTU│                 │ RTU, or notify_established
//                        └─▶ established ◀─┘
//          disconnect: DREQ │           │ DREQ arrives (in rep_sent too)
//                     dreq_sent      dreq_received
//                           │ DREP      │ disconnect: DREP
//                           └▶ timewait ◀┘ ──(after 2 packet lifetimes)──▶ idle
//
// A REJ leads to idle (a stale connection, or one that had been established, to timewait). An MRA lets req_sent and
// rep_sent wait longer (…_mra). What is sent and awaits an answer is sent again, byte by byte the same, until the
// retries are used up: then a REQ or REP is given up (idle, unreachable), a DREQ is taken for answered.
//
// A duplicate gets the answer its first copy got, or that the program still thinks (MRA): Linux' rdma_cm lets programs
// think for as long as they like in this way. Not thread-safe.
#pragma once

#include <memory>
#include <optional>

#include "base/reason.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/parameters.h"
#include "wire/cm_message.h"

namespace verbatim::cm {

enum class ConnectionState : uint8_t {
  idle,
  req_sent,
  req_sent_mra,
  req_received,
  rep_sent,
  rep_sent_mra,
  rep_received,
  established,
  dreq_sent,
  dreq_received,
  timewait,
};

// The time that an exponent in a message means: 4.096 us * 2^n (12.7.5 and others).
constexpr Duration iba_time(uint8_t exponent) { return Duration::nanoseconds(int64_t{4096} << exponent); }

// The exponent of the local ACK timeout: twice the packet lifetime and the responder's delay (12.7.34), rounded to the
// nearer power of two.
uint8_t local_ack_timeout(uint8_t packet_lifetime, uint8_t ca_ack_delay);

// What happened, for the identifier.
enum class ConnectionNews : uint8_t {
  none,
  replied,  // the REP
  established,
  rejected,     // the REJ
  unreachable,  // nobody answered a REQ or REP
  disconnected,
  disconnect_unanswered,
  timewait_over,
};

struct ConnectionStep {
  std::optional<wire::Mad> send;
  ConnectionNews news = ConnectionNews::none;
  Reason dropped = Reason::none;  // the message was of no use
};

// What is the same for all connections of a manager.
struct ConnectionRules {
  uint64_t ca_guid = 0;
  uint8_t ca_ack_delay = 0;
  uint8_t mra_service_timeout = 0;
  uint32_t transaction_half = 0;
};

// The transaction that a connection, or a resolution, begins itself.
constexpr uint64_t own_transaction(const ConnectionRules& rules, wire::CommunicationId id) {
  return uint64_t{rules.transaction_half} << 32 | id.value;
}

// What the passive side answers.
struct ReplyOffer {
  ConnectParameters parameters;
  Psn starting_psn;
  Ece ece;
  PrivateData private_data;
};

class Connection {
 public:
  // Active: `req` goes out with the first step.
  static std::pair<Connection, ConnectionStep> request(const ConnectionRules& rules, Instant now, const Path& path,
                                                       const wire::CmMessage& req);
  // Passive: `req` has come in.
  static Connection requested(const ConnectionRules& rules, wire::CommunicationId local_id, const Path& path,
                              const wire::CmMessage& req);

  // Commands. EINVAL: not in this state.
  Result<ConnectionStep> accept(Instant now, const ReplyOffer& offer);
  Result<ConnectionStep> establish();
  Result<ConnectionStep> notify_established();  // EISCONN: it is already
  Result<ConnectionStep> reject(Instant now, wire::RejectReason reason, const PrivateData& private_data);
  // In a state that has nothing to end it does nothing, and succeeds.
  ConnectionStep disconnect(Instant now);
  // Nobody is there any more who could decide anything: says goodbye in the way that the state asks for.
  ConnectionStep abandon(Instant now);

  // A message that names this connection. A Req: a duplicate of the one that began it.
  ConnectionStep on_message(Instant now, const wire::CmMessage& message);
  Instant deadline() const { return deadline_; }
  ConnectionStep on_deadline(Instant now);

  ConnectionState state() const { return state_; }
  // Would a second connection of the peer's queue pair mean that the peer has forgotten this one (12.9.8.3)?
  bool occupies_remote_qp() const;
  wire::CommunicationId local_id() const { return local_id_; }
  wire::CommunicationId remote_id() const { return remote_id_; }
  uint64_t remote_ca_guid() const { return remote_ca_guid_; }
  QpType qp_type() const { return qp_type_; }
  const Path& path() const { return path_; }
  bool knows_peer() const { return knows_peer_; }
  const QpAttributes& qp() const { return qp_; }
  void set_timeout(uint8_t timeout) { qp_.timeout = timeout; }

 private:
  Connection(const ConnectionRules& rules, const Path& path) : rules_(rules), path_(path) { qp_.path = path; }

  ConnectionStep on(Instant now, const wire::Req& req);
  ConnectionStep on(Instant now, const wire::Mra& mra);
  ConnectionStep on(Instant now, const wire::Rej& rej);
  ConnectionStep on(Instant now, const wire::Rep& rep);
  ConnectionStep on(Instant now, const wire::Rtu& rtu);
  ConnectionStep on(Instant now, const wire::Dreq& dreq);
  ConnectionStep on(Instant now, const wire::Drep& drep);
  ConnectionStep on(Instant now, const wire::Lap& lap);
  template <class Other>
  ConnectionStep on(Instant now, const Other& other);

  wire::Mad message(const wire::CmBody& body) const;
  wire::Mad mra(wire::Answered about) const;
  wire::Mad rej(wire::RejectReason reason, const PrivateData& private_data) const;
  wire::Mad drep() const;
  // Sends it now, and again until answered.
  ConnectionStep send_until_answered(Instant now, ConnectionState state, const wire::CmBody& body);
  void enter(ConnectionState state);
  void enter_timewait(Instant now);
  ConnectionStep give_up(Instant now);

  ConnectionRules rules_;
  ConnectionState state_ = ConnectionState::idle;
  QpType qp_type_ = QpType::rc;
  bool knows_peer_ = false;
  uint8_t max_retries_ = 0;
  uint8_t retries_left_ = 0;
  wire::CommunicationId local_id_;
  wire::CommunicationId remote_id_;
  uint64_t remote_ca_guid_ = 0;
  uint64_t transaction_id_ = 0;
  Path path_;
  QpAttributes qp_;
  Duration response_timeout_;
  Duration interval_;  // of what is sent now
  Instant deadline_ = kNever;
  std::unique_ptr<wire::Mad> unanswered_;
};

}  // namespace verbatim::cm
