#include "cm/connection.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

namespace verbatim::cm {
namespace {

using State = ConnectionState;
using News = ConnectionNews;
using wire::Answered;
using wire::CmMessage;
using wire::CommunicationId;
using wire::RejectReason;

constexpr CommunicationId kA{0xa}, kP{0xb};  // active, passive
constexpr uint64_t kGuidA = 0x1111, kGuidP = 0x2222;
constexpr Qpn kQpA{0x111}, kQpP{0x222};
constexpr Psn kPsnA{0xaaa}, kPsnP{0xbbb};
constexpr Duration kRequestInterval = Duration::nanoseconds(int64_t{4096} * ((2 << 18) + (1 << 20)));
constexpr Duration kReplyInterval = Duration::nanoseconds(int64_t{4096} << 20);

ConnectionRules rules(uint64_t guid) {
  return {.ca_guid = guid, .ca_ack_delay = 15, .mra_service_timeout = 24, .transaction_half = 7};
}

CmMessage request_message() {
  return {.transaction_id = 0x7'0000000a,
          .body = wire::Req{.local_communication_id = kA,
                            .local_ca_guid = kGuidA,
                            .local_qpn = kQpA,
                            .responder_resources = 3,
                            .initiator_depth = 4,
                            .remote_cm_response_timeout = 20,
                            .starting_psn = kPsnA,
                            .local_cm_response_timeout = 20,
                            .retry_count = 5,
                            .rnr_retry_count = 6,
                            .max_cm_retries = 3,
                            .primary = {.local_ack_timeout = 19}}};
}

template <class Message>
Message sent(const ConnectionStep& step) {
  EXPECT_TRUE(step.send.has_value());
  if (!step.send) return {};
  const auto parsed = wire::parse_cm(*step.send);
  const CmMessage* const message = std::get_if<CmMessage>(&parsed);
  EXPECT_TRUE(message && std::holds_alternative<Message>(message->body)) << (message ? text(*message) : "no message");
  return message && std::holds_alternative<Message>(message->body) ? std::get<Message>(message->body) : Message{};
}

// One end in a state, and what it says.
class ConnectionTest : public testing::Test {
 protected:
  Connection active() { return Connection::request(rules(kGuidA), now_, path_, request_message()).first; }
  Connection passive() { return Connection::requested(rules(kGuidP), kP, path_, request_message()); }
  Connection replied() {
    Connection connection = active();
    hear(connection, rep());
    EXPECT_EQ(connection.state(), State::rep_received);
    return connection;
  }
  Connection accepted() {
    Connection connection = passive();
    EXPECT_TRUE(connection.accept(now_, offer()).ok());
    EXPECT_EQ(connection.state(), State::rep_sent);
    return connection;
  }
  Connection established_active() {
    Connection connection = replied();
    EXPECT_TRUE(connection.establish().ok());
    return connection;
  }
  Connection established_passive() {
    Connection connection = accepted();
    hear(connection, wire::Rtu{kA, kP});
    return connection;
  }

  static ReplyOffer offer() {
    return {
        .parameters = {.qpn = kQpP, .srq = true, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 7},
        .starting_psn = kPsnP};
  }
  static wire::Rep rep() {
    return {.local_communication_id = kP,
            .remote_communication_id = kA,
            .local_qpn = kQpP,
            .starting_psn = kPsnP,
            .responder_resources = 2,
            .initiator_depth = 1,
            .target_ack_delay = 15,
            .rnr_retry_count = 7,
            .local_ca_guid = kGuidP};
  }
  ConnectionStep hear(Connection& connection, const wire::CmBody& body) {
    return connection.on_message(now_, {.transaction_id = 0x99, .body = body});
  }
  // Lets its deadline come.
  ConnectionStep wait(Connection& connection) {
    now_ = connection.deadline();
    return connection.on_deadline(now_);
  }

  Instant now_{1'000'000};
  const Path path_{.packet_lifetime = 18};
};

TEST_F(ConnectionTest, ThatIsSetUpKnowsOnBothSidesWhatTheOtherSaid) {
  const QpAttributes active = established_active().qp();
  EXPECT_EQ(active.local_qpn, kQpA);
  EXPECT_EQ(active.remote_qpn, kQpP);
  EXPECT_EQ(active.receive_psn, kPsnA) << "the PSN that a message names is where its receiver begins to send";
  EXPECT_EQ(active.send_psn, kPsnP);
  EXPECT_EQ(active.max_rd_atomic, 2);
  EXPECT_EQ(active.max_dest_rd_atomic, 1);
  EXPECT_EQ(active.retry_count, 5);
  EXPECT_EQ(active.rnr_retry, 7);
  EXPECT_EQ(active.timeout, 19);

  const QpAttributes passive = established_passive().qp();
  EXPECT_EQ(passive.local_qpn, kQpP);
  EXPECT_EQ(passive.remote_qpn, kQpA);
  EXPECT_EQ(passive.receive_psn, kPsnP);
  EXPECT_EQ(passive.send_psn, kPsnA);
  EXPECT_EQ(passive.max_rd_atomic, 1);
  EXPECT_EQ(passive.max_dest_rd_atomic, 2);
  EXPECT_EQ(passive.retry_count, 5);
  EXPECT_EQ(passive.rnr_retry, 6);
  EXPECT_EQ(passive.timeout, 19);
}

TEST_F(ConnectionTest, SendsAReplyWithWhatTheProgramOffers) {
  Connection connection = passive();
  const wire::Rep rep = sent<wire::Rep>(connection.accept(now_, offer()).take());
  EXPECT_EQ(rep.local_communication_id, kP);
  EXPECT_EQ(rep.remote_communication_id, kA);
  EXPECT_EQ(rep.local_qpn, kQpP);
  EXPECT_TRUE(rep.srq);
  EXPECT_EQ(rep.responder_resources, 2);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.local_ca_guid, kGuidP);
  EXPECT_EQ(rep.starting_psn, kPsnP);
}

TEST_F(ConnectionTest, OfAnXrcRequesterHasItsReceiverInThePlaceOfTheEeContext) {
  CmMessage message = request_message();
  wire::Req& req = std::get<wire::Req>(message.body);
  req.transport_service = wire::TransportService::extended;
  req.extended_transport = wire::ExtendedTransport::xrc;
  Connection connection = Connection::requested(rules(kGuidP), kP, path_, message);
  EXPECT_EQ(connection.qp_type(), QpType::xrc_receive);
  const wire::Rep rep = sent<wire::Rep>(connection.accept(now_, offer()).take());
  EXPECT_EQ(rep.local_qpn, Qpn{});
  EXPECT_EQ(rep.local_ee_context, kQpP.value);
  EXPECT_TRUE(rep.srq);

  Connection requester = Connection::request(rules(kGuidA), now_, path_, message).first;
  EXPECT_EQ(requester.qp_type(), QpType::xrc_send);
  hear(requester, rep);
  EXPECT_EQ(requester.qp().remote_qpn, kQpP);
}

TEST_F(ConnectionTest, SendsARequestAgainByteByByteUntilItGivesUp) {
  auto [connection, step] = Connection::request(rules(kGuidA), now_, path_, request_message());
  const wire::Mad first = *step.send;
  for (int retry = 0; retry < 3; ++retry) {
    EXPECT_EQ(connection.deadline(), now_ + kRequestInterval);
    EXPECT_EQ(wait(connection).send, first);
  }
  const ConnectionStep last = wait(connection);
  EXPECT_EQ(last.news, News::unreachable);
  EXPECT_FALSE(last.send);
  EXPECT_EQ(connection.state(), State::idle);
  EXPECT_EQ(connection.deadline(), kNever);
}

TEST_F(ConnectionTest, SendsAReplyAgainUntilItGivesUp) {
  Connection connection = accepted();
  for (int retry = 0; retry < 3; ++retry) {
    EXPECT_EQ(connection.deadline(), now_ + kReplyInterval);
    sent<wire::Rep>(wait(connection));
  }
  EXPECT_EQ(wait(connection).news, News::unreachable);
}

TEST_F(ConnectionTest, TakesADisconnectionForAnsweredInTheEnd) {
  Connection connection = established_active();
  EXPECT_EQ(sent<wire::Dreq>(connection.disconnect(now_)).remote_qpn, kQpP);
  for (int retry = 0; retry < 3; ++retry) sent<wire::Dreq>(wait(connection));
  EXPECT_EQ(wait(connection).news, News::disconnect_unanswered);
  EXPECT_EQ(connection.state(), State::timewait);
}

TEST_F(ConnectionTest, DoesNothingBeforeItsDeadline) {
  Connection connection = active();
  const ConnectionStep step = connection.on_deadline(connection.deadline() + Duration::nanoseconds(-1));
  EXPECT_FALSE(step.send);
  EXPECT_EQ(step.news, News::none);
}

TEST_F(ConnectionTest, WaitsLongerForWhoAsksForTime) {
  Connection waiting = active();
  EXPECT_EQ(hear(waiting, wire::Mra{kP, kA, Answered::rep, 24}).dropped, Reason::cm_state);
  hear(waiting, wire::Mra{kP, kA, Answered::req, 24});
  EXPECT_EQ(waiting.state(), State::req_sent_mra);
  EXPECT_EQ(waiting.deadline(), now_ + iba_time(24) + iba_time(19));
  EXPECT_EQ(hear(waiting, wire::Mra{kP, kA, Answered::req, 24}).dropped, Reason::cm_state);
  EXPECT_EQ(hear(waiting, rep()).news, News::replied);

  Connection replying = accepted();
  hear(replying, wire::Mra{kA, kP, Answered::rep, 24});
  EXPECT_EQ(replying.state(), State::rep_sent_mra);
  EXPECT_EQ(hear(replying, wire::Rtu{kA, kP}).news, News::established);
}

TEST_F(ConnectionTest, AsksForTimeWhileTheProgramThinks) {
  Connection asked = passive();
  const wire::Mra about_req = sent<wire::Mra>(asked.on_message(now_, request_message()));
  EXPECT_EQ(about_req.message_mraed, Answered::req);
  EXPECT_EQ(about_req.service_timeout, 24);
  EXPECT_TRUE(asked.accept(now_, offer()).ok());

  Connection answered = replied();
  EXPECT_EQ(sent<wire::Mra>(hear(answered, rep())).message_mraed, Answered::rep);
  EXPECT_TRUE(answered.establish().ok());
}

TEST_F(ConnectionTest, AnswersADuplicateAsTheFirst) {
  Connection accepting = accepted();
  sent<wire::Rep>(accepting.on_message(now_, request_message()));
  Connection active = established_active();
  sent<wire::Rtu>(hear(active, rep()));
  Connection passive = established_passive();
  EXPECT_EQ(hear(passive, wire::Rtu{kA, kP}).dropped, Reason::cm_duplicate);
  EXPECT_EQ(passive.on_message(now_, request_message()).dropped, Reason::cm_duplicate);
}

TEST_F(ConnectionTest, IsEstablishedByAMessageOfTheQueuePairToo) {
  Connection connection = accepted();
  EXPECT_EQ(connection.notify_established().value().news, News::established);
  EXPECT_EQ(connection.notify_established().error(), EISCONN);
  EXPECT_EQ(hear(connection, wire::Rtu{kA, kP}).dropped, Reason::cm_duplicate);
  EXPECT_EQ(active().notify_established().error(), EINVAL);
  EXPECT_EQ(passive().notify_established().error(), EINVAL);
}

TEST_F(ConnectionTest, ThatIsRejectedIsIdleAtOnce) {
  for (RejectReason reason : {RejectReason::consumer_reject, RejectReason::invalid_service_id}) {
    Connection connection = active();
    EXPECT_EQ(hear(connection, wire::Rej{.remote_communication_id = kA, .reason = reason}).news, News::rejected);
    EXPECT_EQ(connection.state(), State::idle);
    EXPECT_EQ(connection.deadline(), kNever);
  }
  Connection stale = active();
  hear(stale, wire::Rej{.remote_communication_id = kA, .reason = RejectReason::stale_connection});
  EXPECT_EQ(stale.state(), State::timewait);
}

TEST_F(ConnectionTest, ThatIsRejectedAfterItWasEstablishedPassesTimewait) {
  Connection connection = established_active();
  EXPECT_EQ(hear(connection, wire::Rej{kP, kA, Answered::other, 0, RejectReason::consumer_reject}).news,
            News::rejected);
  EXPECT_EQ(connection.state(), State::timewait);
}

TEST_F(ConnectionTest, SaysWhatItRejects) {
  Connection asked = passive();
  const PrivateData data(std::array<uint8_t, 2>{1, 2});
  const wire::Rej of_req = sent<wire::Rej>(asked.reject(now_, RejectReason::consumer_reject, data).take());
  EXPECT_EQ(of_req.message_rejected, Answered::req);
  EXPECT_EQ(of_req.reason, RejectReason::consumer_reject);
  EXPECT_EQ(of_req.private_data[1], 2);
  EXPECT_EQ(asked.state(), State::idle);

  Connection answered = replied();
  EXPECT_EQ(sent<wire::Rej>(answered.reject(now_, RejectReason::consumer_reject, {}).take()).message_rejected,
            Answered::rep);
  EXPECT_EQ(answered.state(), State::idle);

  Connection replying = accepted();
  EXPECT_EQ(sent<wire::Rej>(replying.reject(now_, RejectReason::consumer_reject, {}).take()).message_rejected,
            Answered::other);
  EXPECT_EQ(replying.state(), State::timewait);
}

TEST_F(ConnectionTest, EndsByARequestAndItsAnswer) {
  Connection one = established_active();
  const wire::Dreq dreq = sent<wire::Dreq>(one.disconnect(now_));
  Connection other = established_passive();
  EXPECT_EQ(hear(other, dreq).news, News::disconnected);
  EXPECT_EQ(other.state(), State::dreq_received);
  EXPECT_EQ(hear(other, dreq).dropped, Reason::cm_duplicate) << "the program has not answered yet";
  const wire::Drep drep = sent<wire::Drep>(other.disconnect(now_));
  EXPECT_EQ(other.state(), State::timewait);
  EXPECT_EQ(hear(one, drep).news, News::disconnected);
  EXPECT_EQ(one.state(), State::timewait);
  sent<wire::Drep>(hear(other, dreq));
  EXPECT_EQ(one.deadline(), now_ + iba_time(19));
  EXPECT_EQ(wait(one).news, News::timewait_over);
  EXPECT_EQ(one.state(), State::idle);
  wait(other);
  sent<wire::Drep>(hear(other, dreq));
}

TEST_F(ConnectionTest, RepeatsInAnAnswerTheTransactionOfTheRequest) {
  const auto transaction = [](const ConnectionStep& step) {
    return std::get<CmMessage>(wire::parse_cm(*step.send)).transaction_id;
  };
  Connection connection = passive();
  EXPECT_EQ(transaction(connection.accept(now_, offer()).take()), 0x7'0000000au);
  hear(connection, wire::Rtu{kA, kP});
  hear(connection, wire::Dreq{kA, kP, kQpP});
  EXPECT_EQ(transaction(connection.disconnect(now_)), 0x99u);
  Connection other = established_passive();
  EXPECT_EQ(transaction(other.disconnect(now_)), 0x7'0000000bu) << "one of its own";
}

TEST_F(ConnectionTest, EndsWhenBothDisconnectAtOnce) {
  Connection one = established_active(), other = established_passive();
  const wire::Dreq from_one = sent<wire::Dreq>(one.disconnect(now_));
  const wire::Dreq from_other = sent<wire::Dreq>(other.disconnect(now_));
  const ConnectionStep at_one = hear(one, from_other), at_other = hear(other, from_one);
  EXPECT_EQ(at_one.news, News::disconnected);
  EXPECT_EQ(at_other.news, News::disconnected);
  EXPECT_EQ(hear(one, sent<wire::Drep>(at_other)).dropped, Reason::cm_state);
  EXPECT_EQ(hear(other, sent<wire::Drep>(at_one)).dropped, Reason::cm_state);
  EXPECT_EQ(one.state(), State::timewait);
  EXPECT_EQ(other.state(), State::timewait);
}

TEST_F(ConnectionTest, MayEndBeforeItsLastMessageOfSetupHasCome) {
  Connection connection = accepted();
  EXPECT_EQ(hear(connection, wire::Dreq{kA, kP, kQpP}).news, News::disconnected);
  EXPECT_EQ(connection.state(), State::dreq_received);
}

TEST_F(ConnectionTest, IsNotEndedByWhoMeansAnotherQueuePair) {
  Connection connection = established_active();
  EXPECT_EQ(hear(connection, wire::Dreq{kP, kA, Qpn{0x999}}).dropped, Reason::cm_unknown);
  EXPECT_EQ(connection.state(), State::established);
}

TEST_F(ConnectionTest, RefusesAnAlternatePath) {
  Connection connection = established_active();
  EXPECT_EQ(sent<wire::Apr>(hear(connection, wire::Lap{kP, kA})).ap_status, wire::ApStatus::not_supported);
  EXPECT_EQ(hear(connection, wire::Apr{kP, kA}).dropped, Reason::cm_state);
}

TEST_F(ConnectionTest, ThatNobodyWantsAnyMoreSaysSoInTheWayOfItsState) {
  Connection requesting = active();
  const wire::Rej timeout = sent<wire::Rej>(requesting.abandon(now_));
  EXPECT_EQ(timeout.reason, RejectReason::timeout);
  EXPECT_EQ(timeout.message_rejected, Answered::other);
  EXPECT_EQ(timeout.reject_info_length, 8);
  EXPECT_EQ(timeout.additional_reject_info[6], 0x11);
  EXPECT_EQ(timeout.additional_reject_info[7], 0x11);
  EXPECT_EQ(requesting.state(), State::idle);

  Connection asked = passive();
  EXPECT_EQ(sent<wire::Rej>(asked.abandon(now_)).reason, RejectReason::consumer_reject);
  Connection answered = replied();
  EXPECT_EQ(sent<wire::Rej>(answered.abandon(now_)).reason, RejectReason::consumer_reject);
  Connection replying = accepted();
  EXPECT_EQ(sent<wire::Rej>(replying.abandon(now_)).reason, RejectReason::consumer_reject);
  EXPECT_EQ(replying.state(), State::timewait);

  Connection one = established_active();
  sent<wire::Dreq>(one.abandon(now_));
  EXPECT_EQ(one.state(), State::dreq_sent);
  sent<wire::Dreq>(wait(one));
  Connection other = established_passive();
  hear(other, wire::Dreq{kA, kP, kQpP});
  sent<wire::Drep>(other.abandon(now_));
  EXPECT_EQ(other.state(), State::timewait);
  EXPECT_FALSE(other.abandon(now_).send);
}

TEST_F(ConnectionTest, RefusesCommandsOfOtherStates) {
  EXPECT_EQ(active().accept(now_, offer()).error(), EINVAL);
  EXPECT_EQ(accepted().accept(now_, offer()).error(), EINVAL);
  EXPECT_EQ(active().establish().error(), EINVAL);
  EXPECT_EQ(passive().establish().error(), EINVAL);
  EXPECT_EQ(established_active().establish().error(), EINVAL);
  EXPECT_EQ(established_active().reject(now_, RejectReason::consumer_reject, {}).error(), EINVAL);
  Connection connection = active();
  EXPECT_FALSE(connection.disconnect(now_).send) << "nothing to end, and no error";
  EXPECT_EQ(connection.state(), State::req_sent);
}

TEST_F(ConnectionTest, OccupiesThePeersQueuePairUntilThePeerHasLetGo) {
  EXPECT_FALSE(active().occupies_remote_qp());
  EXPECT_TRUE(passive().occupies_remote_qp());
  EXPECT_TRUE(replied().occupies_remote_qp());
  EXPECT_TRUE(accepted().occupies_remote_qp());
  Connection connection = established_passive();
  EXPECT_TRUE(connection.occupies_remote_qp());
  hear(connection, wire::Dreq{kA, kP, kQpP});
  EXPECT_FALSE(connection.occupies_remote_qp());
}

// Each message of the peer in each state: where it leads.
TEST_F(ConnectionTest, MovesAsTheTableSays) {
  using enum ConnectionState;
  struct Row {
    State state;
    std::function<Connection()> in_that_state;
    State after_req, after_rej, after_rep, after_rtu, after_dreq, after_drep;
  };
  const auto disconnecting = [this] {
    Connection connection = established_passive();
    connection.disconnect(now_);
    return connection;
  };
  const auto disconnected = [this] {
    Connection connection = established_passive();
    hear(connection, wire::Dreq{kA, kP, kQpP});
    return connection;
  };
  const auto over = [this, disconnecting] {
    Connection connection = disconnecting();
    hear(connection, wire::Drep{kA, kP});
    return connection;
  };
  const Row rows[] = {
      {req_sent, [this] { return active(); }, req_sent, idle, rep_received, req_sent, req_sent, req_sent},
      {req_received, [this] { return passive(); }, req_received, idle, req_received, req_received, req_received,
       req_received},
      {rep_sent, [this] { return accepted(); }, rep_sent, idle, rep_sent, established, dreq_received, rep_sent},
      {rep_received, [this] { return replied(); }, rep_received, timewait, rep_received, rep_received, rep_received,
       rep_received},
      {established, [this] { return established_passive(); }, established, timewait, established, established,
       dreq_received, established},
      {dreq_sent, disconnecting, dreq_sent, timewait, dreq_sent, dreq_sent, timewait, timewait},
      {dreq_received, disconnected, dreq_received, dreq_received, dreq_received, dreq_received, dreq_received,
       dreq_received},
      {timewait, over, timewait, timewait, timewait, timewait, timewait, timewait},
  };
  for (const Row& row : rows) {
    const auto expect_after = [&](const wire::CmBody& body, State expected) {
      Connection connection = row.in_that_state();
      ASSERT_EQ(connection.state(), row.state);
      hear(connection, body);
      EXPECT_EQ(connection.state(), expected)
          << static_cast<int>(row.state) << " after " << text(CmMessage{.body = body});
    };
    expect_after(request_message().body, row.after_req);
    expect_after(wire::Rej{.reason = RejectReason::consumer_reject}, row.after_rej);
    expect_after(rep(), row.after_rep);
    expect_after(wire::Rtu{}, row.after_rtu);
    expect_after(wire::Dreq{.remote_qpn = row.in_that_state().qp().local_qpn}, row.after_dreq);
    expect_after(wire::Drep{}, row.after_drep);
  }
}

TEST(LocalAckTimeout, IsTwiceTheLifetimeAndTheDelayToTheNearerPowerOfTwo) {
  EXPECT_EQ(local_ack_timeout(18, 15), 19) << "as rxe has it";
  EXPECT_EQ(local_ack_timeout(14, 15), 16);
  EXPECT_EQ(local_ack_timeout(14, 14), 16);
  EXPECT_EQ(local_ack_timeout(14, 13), 15);
  EXPECT_EQ(local_ack_timeout(10, 20), 20);
  EXPECT_EQ(local_ack_timeout(18, 20), 21);
  EXPECT_EQ(local_ack_timeout(31, 31), 31);
  EXPECT_EQ(local_ack_timeout(0, 0), 2);
}

}  // namespace
}  // namespace verbatim::cm
