#include "cm/connection.h"

#include <cerrno>
#include <cstring>

namespace verbatim::cm {

using State = ConnectionState;
using News = ConnectionNews;
using wire::Answered;
using wire::RejectReason;

namespace {

// A QP of an XRC requester says so by the extended type; its peer is an XRC receiver.
QpType requesters_type(const wire::Req& req) {
  if (req.transport_service == wire::TransportService::uc) return QpType::uc;
  return req.transport_service == wire::TransportService::extended ? QpType::xrc_send : QpType::rc;
}

QpType peers_type(const wire::Req& req) {
  const QpType type = requesters_type(req);
  return type == QpType::xrc_send ? QpType::xrc_receive : type;
}

ConnectionStep dropped(Reason reason) { return {.dropped = reason}; }

template <size_t N>
void put(const PrivateData& from, std::array<uint8_t, N>& to) {
  std::ranges::copy(from.bytes(), to.begin());
}

}  // namespace

uint8_t local_ack_timeout(uint8_t packet_lifetime, uint8_t ca_ack_delay) {
  const int twice = packet_lifetime + 1;
  const int larger = std::max<int>(twice, ca_ack_delay), smaller = std::min<int>(twice, ca_ack_delay);
  return static_cast<uint8_t>(std::min(31, larger + (smaller >= larger - 1)));
}

std::pair<Connection, ConnectionStep> Connection::request(const ConnectionRules& rules, Instant now, const Path& path,
                                                          const wire::CmMessage& message) {
  const wire::Req& req = std::get<wire::Req>(message.body);
  Connection connection(rules, path);
  connection.qp_type_ = requesters_type(req);
  connection.local_id_ = req.local_communication_id;
  connection.transaction_id_ = message.transaction_id;
  connection.max_retries_ = req.max_cm_retries;
  connection.response_timeout_ = iba_time(path.packet_lifetime) * 2 + iba_time(req.remote_cm_response_timeout);
  QpAttributes& qp = connection.qp_;
  qp.local_qpn = req.local_qpn;
  qp.receive_psn = req.starting_psn;
  qp.max_dest_rd_atomic = req.responder_resources;
  qp.max_rd_atomic = req.initiator_depth;
  qp.timeout = req.primary.local_ack_timeout;
  qp.retry_count = req.retry_count;
  ConnectionStep step = connection.send_until_answered(now, State::req_sent, req);
  return {std::move(connection), std::move(step)};
}

Connection Connection::requested(const ConnectionRules& rules, wire::CommunicationId local_id, const Path& path,
                                 const wire::CmMessage& message) {
  const wire::Req& req = std::get<wire::Req>(message.body);
  Connection connection(rules, path);
  connection.qp_type_ = peers_type(req);
  connection.local_id_ = local_id;
  connection.remote_id_ = req.local_communication_id;
  connection.remote_ca_guid_ = req.local_ca_guid;
  connection.transaction_id_ = message.transaction_id;
  connection.max_retries_ = req.max_cm_retries;
  connection.response_timeout_ = iba_time(req.local_cm_response_timeout);
  connection.knows_peer_ = true;
  QpAttributes& qp = connection.qp_;
  qp.remote_qpn = req.local_qpn;
  qp.send_psn = req.starting_psn;
  qp.max_dest_rd_atomic = req.initiator_depth;
  qp.max_rd_atomic = req.responder_resources;
  qp.timeout = req.primary.local_ack_timeout;
  qp.retry_count = req.retry_count;
  qp.rnr_retry = req.rnr_retry_count;
  qp.remote_srq = req.srq;
  connection.state_ = State::req_received;
  return connection;
}

// --- commands -------------------------------------------------------------------------------------------------------

Result<ConnectionStep> Connection::accept(Instant now, const ReplyOffer& offer) {
  if (state_ != State::req_received) return Status{EINVAL};
  wire::Rep rep{.local_communication_id = local_id_,
                .remote_communication_id = remote_id_,
                .ece = offer.ece,
                .starting_psn = offer.starting_psn,
                .responder_resources = offer.parameters.responder_resources,
                .target_ack_delay = rules_.ca_ack_delay,
                .rnr_retry_count = offer.parameters.rnr_retry_count,
                .local_ca_guid = rules_.ca_guid};
  if (qp_type_ == QpType::xrc_receive) {
    rep.local_ee_context = offer.parameters.qpn.value;
    rep.srq = true;
  } else {
    rep.local_qpn = offer.parameters.qpn;
    rep.initiator_depth = offer.parameters.initiator_depth;
    rep.end_to_end_flow_control = offer.parameters.flow_control;
    rep.srq = offer.parameters.srq;
  }
  put(offer.private_data, rep.private_data);
  qp_.local_qpn = offer.parameters.qpn;
  qp_.receive_psn = offer.starting_psn;
  qp_.max_dest_rd_atomic = offer.parameters.responder_resources;
  qp_.max_rd_atomic = offer.parameters.initiator_depth;
  return send_until_answered(now, State::rep_sent, rep);
}

Result<ConnectionStep> Connection::establish() {
  if (state_ != State::rep_received) return Status{EINVAL};
  enter(State::established);
  return ConnectionStep{.send = message(wire::Rtu{local_id_, remote_id_})};
}

Result<ConnectionStep> Connection::notify_established() {
  if (state_ == State::established) return Status{EISCONN};
  if (state_ != State::rep_sent && state_ != State::rep_sent_mra) return Status{EINVAL};
  enter(State::established);
  return ConnectionStep{.news = News::established};
}

Result<ConnectionStep> Connection::reject(Instant now, RejectReason reason, const PrivateData& private_data) {
  switch (state_) {
    case State::req_sent:
    case State::req_sent_mra:
    case State::req_received:
    case State::rep_received: {
      ConnectionStep step{.send = rej(reason, private_data)};
      enter(State::idle);
      return step;
    }
    case State::rep_sent:
    case State::rep_sent_mra: {
      ConnectionStep step{.send = rej(reason, private_data)};
      enter_timewait(now);
      return step;
    }
    default:
      return Status{EINVAL};
  }
}

ConnectionStep Connection::disconnect(Instant now) {
  if (state_ == State::established)
    return send_until_answered(now, State::dreq_sent, wire::Dreq{local_id_, remote_id_, qp_.remote_qpn});
  if (state_ != State::dreq_received) return {};
  enter_timewait(now);
  return {.send = drep()};
}

ConnectionStep Connection::abandon(Instant now) {
  switch (state_) {
    case State::req_sent:
    case State::req_sent_mra:
      // With our GUID in it, which names us together with our ID where the answer is not known to us.
      return reject(now, RejectReason::timeout, {}).take();
    case State::req_received:
    case State::rep_received:
    case State::rep_sent:
    case State::rep_sent_mra:
      return reject(now, RejectReason::consumer_reject, {}).take();
    default:
      return disconnect(now);
  }
}

// --- messages -------------------------------------------------------------------------------------------------------

ConnectionStep Connection::on_message(Instant now, const wire::CmMessage& message) {
  // A DREP repeats what its DREQ has.
  const wire::Dreq* const dreq = std::get_if<wire::Dreq>(&message.body);
  if (dreq && dreq->remote_qpn == qp_.local_qpn) transaction_id_ = message.transaction_id;
  return std::visit([&](const auto& body) { return on(now, body); }, message.body);
}

ConnectionStep Connection::on(Instant, const wire::Req&) {
  if (state_ == State::req_received) return {.send = mra(Answered::req)};
  if (state_ == State::rep_sent) return {.send = *unanswered_};
  return dropped(Reason::cm_duplicate);
}

ConnectionStep Connection::on(Instant now, const wire::Mra& mra) {
  const bool is_about_req = state_ == State::req_sent && mra.message_mraed == Answered::req;
  const bool is_about_rep = state_ == State::rep_sent && mra.message_mraed == Answered::rep;
  if (!is_about_req && !is_about_rep) return dropped(Reason::cm_state);
  state_ = is_about_req ? State::req_sent_mra : State::rep_sent_mra;
  interval_ = iba_time(mra.service_timeout) + iba_time(qp_.timeout);
  deadline_ = now + interval_;
  return {};
}

ConnectionStep Connection::on(Instant now, const wire::Rej& rej) {
  switch (state_) {
    case State::req_sent:
    case State::req_sent_mra:
    case State::req_received:
    case State::rep_sent:
    case State::rep_sent_mra:
      if (rej.reason == RejectReason::stale_connection)
        enter_timewait(now);
      else
        enter(State::idle);
      break;
    case State::rep_received:
    case State::established:
    case State::dreq_sent:
      enter_timewait(now);
      break;
    default:
      return dropped(Reason::cm_state);
  }
  return {.news = News::rejected};
}

ConnectionStep Connection::on(Instant, const wire::Rep& rep) {
  switch (state_) {
    case State::req_sent:
    case State::req_sent_mra:
      break;
    case State::rep_received:
      return {.send = mra(Answered::rep)};
    case State::established:
      return {.send = message(wire::Rtu{local_id_, remote_id_})};  // the first one was lost
    default:
      return dropped(Reason::cm_state);
  }
  remote_id_ = rep.local_communication_id;
  remote_ca_guid_ = rep.local_ca_guid;
  knows_peer_ = true;
  qp_.remote_qpn = qp_type_ == QpType::xrc_send ? Qpn{rep.local_ee_context} : rep.local_qpn;
  qp_.send_psn = rep.starting_psn;
  qp_.max_rd_atomic = rep.responder_resources;
  qp_.max_dest_rd_atomic = rep.initiator_depth;
  qp_.rnr_retry = rep.rnr_retry_count;
  qp_.remote_srq = rep.srq;
  qp_.timeout = local_ack_timeout(path_.packet_lifetime, rep.target_ack_delay);
  enter(State::rep_received);
  return {.news = News::replied};
}

ConnectionStep Connection::on(Instant, const wire::Rtu&) {
  if (state_ == State::established) return dropped(Reason::cm_duplicate);
  if (state_ != State::rep_sent && state_ != State::rep_sent_mra) return dropped(Reason::cm_state);
  enter(State::established);
  return {.news = News::established};
}

ConnectionStep Connection::on(Instant now, const wire::Dreq& dreq) {
  if (dreq.remote_qpn != qp_.local_qpn) return dropped(Reason::cm_unknown);
  switch (state_) {
    case State::rep_sent:
    case State::rep_sent_mra:
    case State::established:
      enter(State::dreq_received);
      return {.news = News::disconnected};
    case State::dreq_sent:
      // Both ends at once: each has said what it had to say.
      enter_timewait(now);
      return {.send = drep(), .news = News::disconnected};
    case State::timewait:
    case State::idle:
      return {.send = drep()};  // the first one was lost
    case State::dreq_received:
      return dropped(Reason::cm_duplicate);
    default:
      return dropped(Reason::cm_state);
  }
}

ConnectionStep Connection::on(Instant now, const wire::Drep&) {
  if (state_ != State::dreq_sent) return dropped(Reason::cm_state);
  enter_timewait(now);
  return {.news = News::disconnected};
}

ConnectionStep Connection::on(Instant, const wire::Lap&) {
  return {.send = message(wire::Apr{
              .local_communication_id = local_id_,
              .remote_communication_id = remote_id_,
              .ap_status = wire::ApStatus::not_supported,
          })};
}

template <class Other>
ConnectionStep Connection::on(Instant, const Other&) {
  return dropped(Reason::cm_state);
}

// --- time -----------------------------------------------------------------------------------------------------------

ConnectionStep Connection::on_deadline(Instant now) {
  if (deadline_ > now) return {};
  if (state_ == State::timewait) {
    enter(State::idle);
    return {.news = News::timewait_over};
  }
  if (retries_left_ == 0) return give_up(now);
  --retries_left_;
  deadline_ = now + interval_;
  return {.send = *unanswered_};
}

ConnectionStep Connection::give_up(Instant now) {
  if (state_ == State::dreq_sent) {
    enter_timewait(now);
    return {.news = News::disconnect_unanswered};
  }
  enter(State::idle);
  return {.news = News::unreachable};
}

ConnectionStep Connection::send_until_answered(Instant now, ConnectionState state, const wire::CmBody& body) {
  if (state == State::dreq_sent) transaction_id_ = own_transaction(rules_, local_id_);
  enter(state);
  unanswered_ = std::make_unique<wire::Mad>(message(body));
  retries_left_ = max_retries_;
  interval_ = response_timeout_;
  deadline_ = now + interval_;
  return {.send = *unanswered_};
}

void Connection::enter(ConnectionState state) {
  state_ = state;
  unanswered_.reset();
  deadline_ = kNever;
}

void Connection::enter_timewait(Instant now) {
  enter(State::timewait);
  deadline_ = now + iba_time(static_cast<uint8_t>(path_.packet_lifetime + 1));
}

bool Connection::occupies_remote_qp() const {
  switch (state_) {
    case State::req_received:
    case State::rep_sent:
    case State::rep_sent_mra:
    case State::rep_received:
    case State::established:
      return true;
    default:
      return false;
  }
}

// --- what is sent ---------------------------------------------------------------------------------------------------

wire::Mad Connection::message(const wire::CmBody& body) const { return wire::emit_cm({transaction_id_, body}); }

wire::Mad Connection::mra(Answered about) const {
  return message(wire::Mra{.local_communication_id = local_id_,
                           .remote_communication_id = remote_id_,
                           .message_mraed = about,
                           .service_timeout = rules_.mra_service_timeout});
}

wire::Mad Connection::rej(RejectReason reason, const PrivateData& private_data) const {
  wire::Rej rej{.local_communication_id = local_id_, .remote_communication_id = remote_id_, .reason = reason};
  rej.message_rejected = state_ == State::req_received   ? Answered::req
                         : state_ == State::rep_received ? Answered::rep
                                                         : Answered::other;
  if (reason == RejectReason::timeout) {
    rej.reject_info_length = sizeof rules_.ca_guid;
    for (int i = 0; i < 8; ++i) rej.additional_reject_info[i] = static_cast<uint8_t>(rules_.ca_guid >> (56 - 8 * i));
  }
  put(private_data, rej.private_data);
  return message(rej);
}

wire::Mad Connection::drep() const { return message(wire::Drep{local_id_, remote_id_}); }

}  // namespace verbatim::cm
