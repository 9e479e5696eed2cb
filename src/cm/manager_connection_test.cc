// Connections through the managers of two hosts, or of one: which events, in which order, with what in them.
#include "support/two_hosts.h"

namespace verbatim::cm {
namespace {

class Connecting : public TwoHosts {
 protected:
  // Up to the request, which the server has taken.
  void ask(const Offer& offer = offered(0x111)) {
    listener_ = listening(server_, ipv4("192.0.2.2", kPort));
    active_ = resolved(client_, ipv4("192.0.2.2", kPort));
    ASSERT_EQ(connect(client_, active_, offer).error, 0);
    request_ = take_one(server_);
    ASSERT_EQ(name(request_), "CONNECT_REQUEST");
    passive_ = request_.id;
  }
  void connected() {
    ask();
    ASSERT_EQ(accept(server_, passive_).error, 0);
    ASSERT_EQ(take(client_), Names{"CONNECT_RESPONSE"});
    ASSERT_EQ(establish(client_, active_).error, 0);
    ASSERT_EQ(take(server_), Names{"ESTABLISHED"});
    sent();
  }
  // Nothing is left at any host when everybody has gone, and time has passed.
  void expect_nothing_left() {
    one_.on_owner_death(now_, client_.owner);
    two_.on_owner_death(now_, server_.owner);
    settle();
    let_all_time_pass();
    EXPECT_EQ(one_.population(), Manager::Population{});
    EXPECT_EQ(two_.population(), Manager::Population{});
  }

  const Program client_ = program(one_), server_ = program(two_);
  IdHandle listener_, active_, passive_;
  Event request_;
};

TEST_F(Connecting, SucceedsInThreeMessages) {
  connected();
  EXPECT_EQ(take(client_), Names{});
  EXPECT_EQ(view(client_, active_).qp->remote_qpn, Qpn{0x222});
  EXPECT_EQ(view(server_, passive_).qp->remote_qpn, Qpn{0x111});
  EXPECT_EQ(view(client_, active_).qp->receive_psn, view(server_, passive_).qp->send_psn);
  EXPECT_EQ(view(client_, active_).qp->send_psn, view(server_, passive_).qp->receive_psn);
  expect_nothing_left();
}

TEST_F(Connecting, OnOneHostGoesTheSameWay) {
  const Program server = program(one_);
  for (const Address& destination :
       {ipv4("127.0.0.1", kPort), ipv4("192.0.2.11", kPort), ipv6("::1", kPort), ipv6("fe80::1", kPort, kEth),
        Address::wildcard(Family::ipv4, kPort), Address::wildcard(Family::ipv6, kPort)}) {
    const IdHandle listener = listening(server, Address::wildcard(Family::ipv6, kPort));
    const IdHandle active = resolved(client_, destination);
    ASSERT_EQ(connect(client_, active).error, 0);
    const Event request = take_one(server);
    ASSERT_EQ(accept(server, request.id).error, 0);
    ASSERT_EQ(take(client_), Names{"CONNECT_RESPONSE"});
    ASSERT_EQ(establish(client_, active).error, 0);
    EXPECT_EQ(take(server), Names{"ESTABLISHED"});
    EXPECT_EQ(view(client_, active).source, view(server, request.id).destination);
    EXPECT_EQ(view(client_, active).destination, view(server, request.id).source);
    ASSERT_EQ(disconnect(client_, active).error, 0);
    EXPECT_EQ(take(server), Names{"DISCONNECTED"});
    destroy(server, request.id);
    EXPECT_EQ(take(client_), Names{"DISCONNECTED"});
    destroy(server, listener);
    destroy(client_, active);
  }
  let_all_time_pass();
  EXPECT_EQ(one_.population(), Manager::Population{});
}

TEST_F(Connecting, TellsTheServerWhoAsksAndWithWhat) {
  Offer offer = offered(0x111);
  offer.parameters = {.qpn = Qpn{0x111},
                      .srq = true,
                      .responder_resources = 3,
                      .initiator_depth = 4,
                      .flow_control = true,
                      .retry_count = 5,
                      .rnr_retry_count = 6};
  offer.private_data = bytes(3);
  offer.ece = {.vendor_id = 0x123, .options = 0x456};
  ask(offer);
  EXPECT_EQ(request_.listener, listener_);
  EXPECT_EQ(request_.connection, (ConnectParameters{.qpn = Qpn{0x111},
                                                    .srq = true,
                                                    .responder_resources = 4,
                                                    .initiator_depth = 3,
                                                    .flow_control = true,
                                                    .retry_count = 5,
                                                    .rnr_retry_count = 6}));
  ASSERT_EQ(request_.private_data.size(), 56u) << "padded: the wire has no length";
  EXPECT_EQ(request_.private_data.bytes()[2], 0x5a);
  EXPECT_EQ(request_.private_data.bytes()[3], 0);
  EXPECT_EQ(request_.ece, offer.ece);

  const IdView passive = view(server_, passive_);
  EXPECT_EQ(passive.source, ipv4("192.0.2.2", kPort));
  EXPECT_EQ(passive.destination, ipv4("192.0.2.1", view(client_, active_).source.port));
  EXPECT_TRUE(passive.has_device);
  EXPECT_TRUE(passive.knows_peer);
  EXPECT_EQ(passive.channel, server_.channel);
  EXPECT_EQ(passive.path->source, ipv4("192.0.2.2").ip);
  EXPECT_EQ(passive.path->destination, ipv4("192.0.2.1").ip);
  EXPECT_EQ(passive.path->mtu, 3);
  EXPECT_EQ(passive.path->packet_lifetime, 18);
  EXPECT_EQ(passive.path->flow_label, view(client_, active_).path->flow_label);
  EXPECT_EQ(passive.qp->max_dest_rd_atomic, 4);
  // Who accepts has led its queue pair to RTR before.
  ASSERT_EQ(accept(server_, passive_, offered(0x222)).error, 0);
  EXPECT_EQ(name(take_one(client_)), "CONNECT_RESPONSE");
  EXPECT_EQ(view(client_, active_).qp->send_psn, passive.qp->receive_psn);
}

TEST_F(Connecting, TellsTheClientWhatTheServerOffers) {
  ask();
  Offer offer = offered(0x222);
  offer.parameters = {.qpn = Qpn{0x222},
                      .srq = true,
                      .responder_resources = 3,
                      .initiator_depth = 4,
                      .flow_control = true,
                      .rnr_retry_count = 9};
  offer.private_data = bytes(196);
  offer.ece = {.vendor_id = 0x123, .options = 0x456};
  ASSERT_EQ(accept(server_, passive_, offer).error, 0);
  const Event response = take_one(client_);
  EXPECT_EQ(name(response), "CONNECT_RESPONSE");
  EXPECT_EQ(response.id, active_);
  EXPECT_EQ(response.connection, (ConnectParameters{.qpn = Qpn{0x222},
                                                    .srq = true,
                                                    .responder_resources = 4,
                                                    .initiator_depth = 3,
                                                    .flow_control = true,
                                                    .rnr_retry_count = 7}));
  EXPECT_EQ(response.private_data, offer.private_data);
  EXPECT_EQ(response.ece, offer.ece);
}

TEST_F(Connecting, CutsNumbersToWhatMessagesHaveBitsFor) {
  Offer offer = offered(0xff000111);
  offer.parameters.retry_count = offer.parameters.rnr_retry_count = 255;
  offer.ece.vendor_id = 0xff000123;
  ask(offer);
  EXPECT_EQ(request_.connection.qpn, Qpn{0x111});
  EXPECT_EQ(request_.connection.retry_count, 7);
  EXPECT_EQ(request_.connection.rnr_retry_count, 7);
  EXPECT_EQ(request_.ece.vendor_id, 0x123u);
  ASSERT_EQ(accept(server_, passive_, offer).error, 0);
  EXPECT_EQ(take_one(client_).ece.vendor_id, 0x123u);
  // The end of the connection names the queue pair by the same number.
  ASSERT_EQ(establish(client_, active_).error, 0);
  ASSERT_EQ(disconnect(client_, active_).error, 0);
  EXPECT_EQ(take(server_), (Names{"ESTABLISHED", "DISCONNECTED"}));
}

TEST_F(Connecting, SendsTheRequestThatRdmaRxeWouldSend) {
  active_ = create(client_);
  ASSERT_EQ(one_.set_tos(client_.owner, active_, 0x28).error, 0);
  ASSERT_EQ(resolve(client_, active_, ipv4("192.0.2.2", kPort)).error, 0);
  ASSERT_EQ(one_.resolve_route(client_.owner, active_).error, 0);
  const uint16_t port = view(client_, active_).source.port;
  wire::Req req;
  is_lost_ = [&](const wire::CmMessage& message) {
    req = std::get<wire::Req>(message.body);
    return true;
  };
  ASSERT_EQ(connect(client_, active_).error, 0);
  EXPECT_EQ(req.service_id, wire::ServiceId{0x1060000 + kPort});
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.partition_key, 0xffff);
  EXPECT_EQ(req.path_mtu, 3);
  EXPECT_EQ(req.primary, (wire::RequestPath{.local_lid = 0xffff,
                                            .remote_lid = 0xffff,
                                            .local_gid = ipv4("192.0.2.1").ip,
                                            .remote_gid = ipv4("192.0.2.2").ip,
                                            .flow_label = (port * 31u + kPort) & 0xfffff,
                                            .packet_rate = 2,
                                            .traffic_class = 0x28,
                                            .hop_limit = 64,
                                            .local_ack_timeout = 19}));
  EXPECT_EQ(req.alternate, wire::RequestPath{});
}

TEST_F(Connecting, WhereNobodyListensIsRejectedAsAnInvalidService) {
  active_ = resolved(client_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  step_time();
  EXPECT_EQ(take(client_), Names{"REJECTED 8"});
  EXPECT_EQ(sent(), (Names{"REQ", "REJ"}));
  EXPECT_EQ(connect(client_, active_).error, EINVAL) << "once";
  expect_nothing_left();
}

TEST_F(Connecting, WaitsAMomentForWhoIsAboutToListen) {
  active_ = resolved(client_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  EXPECT_EQ(next_deadline(), now_ + Duration::milliseconds(50));
  listening(server_, ipv4("192.0.2.2", kPort + 1));
  EXPECT_EQ(take(server_), Names{}) << "another port";
  listening(server_, ipv4("192.0.2.2", kPort));
  EXPECT_EQ(take(server_), Names{"CONNECT_REQUEST"});
  now_ = now_ + Duration::milliseconds(50);
  two_.on_deadline(now_);
  settle();
  EXPECT_EQ(take(client_), Names{}) << "nobody refuses it any more";
  EXPECT_EQ(sent(), Names{"REQ"});
}

TEST_F(Connecting, ThatIsGivenUpIsNotHeardByWhoListensThen) {
  active_ = resolved(client_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  destroy(client_, active_);
  listening(server_, ipv4("192.0.2.2", kPort));
  EXPECT_EQ(take(server_), Names{});
}

TEST_F(Connecting, DoesNotWaitForListenersBeyondAThousand) {
  for (int i = 0; i <= 1024; ++i) {
    const IdHandle id = resolved(client_, ipv4("192.0.2.2", kPort));
    ASSERT_EQ(connect(client_, id, offered(static_cast<uint32_t>(i + 1))).error, 0);
    EXPECT_EQ(take(client_), i < 1024 ? Names{} : Names{"REJECTED 8"}) << i;
  }
}

TEST_F(Connecting, ToAnotherAddressOfAPortOrAnotherTypeIsRejectedAsByAProgram) {
  const Program server = program(one_);
  listening(server, ipv4("192.0.2.1", kPort));
  active_ = resolved(client_, ipv4("192.0.2.11", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  EXPECT_EQ(take(client_), Names{"REJECTED 28"});

  listening(server, ipv4("192.0.2.1", kPort), 0, PortSpace::ib, QpType::uc);
  active_ = resolved(client_, ipv4("192.0.2.1", kPort), PortSpace::ib, QpType::rc);
  ASSERT_EQ(connect(client_, active_).error, 0);
  EXPECT_EQ(take(client_), Names{"REJECTED 28"});
}

TEST_F(Connecting, IsRejectedByTheProgramWithItsData) {
  ask();
  ASSERT_EQ(reject(server_, passive_, bytes(148)).error, 0);
  const Event rejected = take_one(client_);
  EXPECT_EQ(name(rejected), "REJECTED 28");
  EXPECT_EQ(rejected.private_data, bytes(148));
  EXPECT_EQ(accept(server_, passive_).error, EINVAL);
  EXPECT_EQ(reject(server_, passive_).error, EINVAL) << "twice";
  expect_nothing_left();
}

TEST_F(Connecting, IsRejectedForItsVendorOptions) {
  ask();
  EXPECT_EQ(reject(server_, passive_, {}, wire::RejectReason::timeout).error, EINVAL);
  ASSERT_EQ(reject(server_, passive_, {}, wire::RejectReason::vendor_option_not_supported).error, 0);
  const Event rejected = take_one(client_);
  EXPECT_EQ(name(rejected), "REJECTED 35");
  EXPECT_EQ(rejected.private_data, bytes(148, 0));
}

TEST_F(Connecting, IsRejectedByTheClientThatCannotSetUpItsQueuePair) {
  ask();
  ASSERT_EQ(accept(server_, passive_).error, 0);
  ASSERT_EQ(take(client_), Names{"CONNECT_RESPONSE"});
  ASSERT_EQ(reject(client_, active_).error, 0);
  EXPECT_EQ(take(server_), Names{"REJECTED 28"});
  EXPECT_EQ(establish(client_, active_).error, EINVAL);
}

TEST_F(Connecting, BeyondTheBacklogWaitsUntilThereIsRoom) {
  listener_ = listening(server_, ipv4("192.0.2.2", kPort), 2);
  std::vector<IdHandle> clients;
  for (uint32_t i = 0; i < 3; ++i) {
    clients.push_back(resolved(client_, ipv4("192.0.2.2", kPort)));
    ASSERT_EQ(connect(client_, clients.back(), offered(i + 1)).error, 0);
  }
  EXPECT_EQ(last_reason_, Reason::cm_backlog);
  take_one(server_);
  take_one(server_);
  EXPECT_FALSE(two_.has_event(server_.channel)) << "it was dropped";
  EXPECT_EQ(take(client_), Names{}) << "and not rejected";
  step_time();
  EXPECT_EQ(take(server_), Names{"CONNECT_REQUEST"}) << "the request has come again";
}

TEST_F(Connecting, WithNoBacklogSaidTakesTheMost) {
  listener_ = listening(server_, ipv4("192.0.2.2", kPort), 0);
  for (uint32_t i = 0; i < 1025; ++i)
    ASSERT_EQ(connect(client_, resolved(client_, ipv4("192.0.2.2", kPort)), offered(i + 1)).error, 0);
  EXPECT_EQ(take(server_).size(), 1024u);
}

TEST_F(Connecting, ThatIsNotAnsweredIsUnreachable) {
  active_ = resolved(client_, ipv4("192.0.2.3", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  const Instant begin = now_;
  Names events;
  while (events.empty() && step_time()) events = take(client_);
  EXPECT_EQ(events, Names{"UNREACHABLE -110"});
  EXPECT_EQ(sent(), Names(16, "REQ"));
  EXPECT_NEAR(static_cast<double>((now_ - begin).ns) / 1e9, 103, 0.5) << "as rdma_rxe, 16 times 6.4 seconds";
  EXPECT_FALSE(step_time());
  expect_nothing_left();
}

TEST_F(Connecting, WhoseReplyIsNotAnsweredIsUnreachableToo) {
  ask();
  is_lost_ = is<wire::Rep>;
  ASSERT_EQ(accept(server_, passive_).error, 0);
  Names events;
  is_lost_ = [](const auto& message) { return is<wire::Rep>(message) || is<wire::Req>(message); };
  while (events.empty() && step_time()) events = take(server_);
  EXPECT_EQ(events, Names{"UNREACHABLE -110"});
}

TEST_F(Connecting, GoesOnWhenMessagesAreLost) {
  int lost = 0;
  // The first three of each.
  is_lost_ = [&, counts = std::map<size_t, int>()](const wire::CmMessage& message) mutable {
    const bool is_one_of_the_first = ++counts[message.body.index()] <= 3;
    lost += is_one_of_the_first;
    return is_one_of_the_first;
  };
  listener_ = listening(server_, ipv4("192.0.2.2", kPort));
  active_ = resolved(client_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  while (!two_.has_event(server_.channel)) ASSERT_TRUE(step_time());
  passive_ = take_one(server_).id;
  ASSERT_EQ(accept(server_, passive_).error, 0);
  while (!one_.has_event(client_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(client_), Names{"CONNECT_RESPONSE"});
  ASSERT_EQ(establish(client_, active_).error, 0);
  while (!two_.has_event(server_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(server_), Names{"ESTABLISHED"});
  ASSERT_EQ(disconnect(client_, active_).error, 0);
  while (!two_.has_event(server_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  ASSERT_EQ(disconnect(server_, passive_).error, 0);
  while (!one_.has_event(client_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(client_), Names{"DISCONNECTED"});
  EXPECT_EQ(lost, 5 * 3) << "of REQ, REP, RTU, DREQ, DREP";
  expect_nothing_left();
}

TEST_F(Connecting, AProgramMayThinkLongerThanTheRetriesLast) {
  ask();
  const Instant begin = now_;
  while (now_ < begin + Duration::milliseconds(200'000)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(client_), Names{});
  ASSERT_EQ(accept(server_, passive_).error, 0);
  EXPECT_EQ(take(client_), Names{"CONNECT_RESPONSE"});
}

TEST_F(Connecting, ThatTheClientGaveUpCannotBeAccepted) {
  ask();
  one_.on_owner_death(now_, client_.owner);
  settle();
  EXPECT_EQ(take(server_), Names{}) << "it does not know the identifier yet";
  EXPECT_EQ(accept(server_, passive_).error, EINVAL);
  EXPECT_EQ(server_.manager->events_taken(passive_), 0u);
  destroy(server_, passive_);
  expect_nothing_left();
}

TEST_F(Connecting, IsReportedWhenTheQueuePairHasHeardFirst) {
  ask();
  is_lost_ = is<wire::Rtu>;
  ASSERT_EQ(accept(server_, passive_).error, 0);
  ASSERT_EQ(establish(client_, active_).error, 0);
  EXPECT_EQ(two_.notify_established(now_, server_.owner, passive_).error, 0);
  EXPECT_EQ(take(server_), Names{"ESTABLISHED"});
  EXPECT_EQ(two_.notify_established(now_, server_.owner, passive_).error, EISCONN);
  EXPECT_EQ(two_.notify_established(now_, server_.owner, listener_).error, EINVAL);
}

TEST_F(Connecting, EndsWhenTheClientDisconnects) {
  connected();
  ASSERT_EQ(disconnect(client_, active_).error, 0);
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  EXPECT_EQ(take(client_), Names{}) << "the server has not answered";
  ASSERT_EQ(disconnect(server_, passive_).error, 0);
  EXPECT_EQ(take(client_), Names{"DISCONNECTED"});
  EXPECT_EQ(sent(), (Names{"DREQ", "DREP"}));
  const Instant end = now_;
  let_all_time_pass();
  EXPECT_EQ(take(client_), Names{"TIMEWAIT_EXIT"});
  EXPECT_EQ(take(server_), Names{"TIMEWAIT_EXIT"});
  EXPECT_EQ(now_ - end, iba_time(19));
  expect_nothing_left();
}

TEST_F(Connecting, EndsWhenTheServerDisconnects) {
  connected();
  ASSERT_EQ(disconnect(server_, passive_).error, 0);
  EXPECT_EQ(take(client_), Names{"DISCONNECTED"});
  ASSERT_EQ(disconnect(client_, active_).error, 0);
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  EXPECT_EQ(disconnect(server_, passive_).error, 0) << "once more is no error";
  expect_nothing_left();
}

TEST_F(Connecting, EndsOnceWhenBothDisconnectAtOnce) {
  connected();
  ASSERT_EQ(one_.disconnect(now_, client_.owner, active_).error, 0);
  ASSERT_EQ(two_.disconnect(now_, server_.owner, passive_).error, 0);
  settle();
  EXPECT_EQ(take(client_), Names{"DISCONNECTED"});
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  let_all_time_pass();
  EXPECT_EQ(take(client_), Names{"TIMEWAIT_EXIT"});
  EXPECT_EQ(take(server_), Names{"TIMEWAIT_EXIT"});
  expect_nothing_left();
}

TEST_F(Connecting, EndsWhenTheOtherIsNotThereAnyMore) {
  connected();
  is_lost_ = [](const auto&) { return true; };
  ASSERT_EQ(disconnect(client_, active_).error, 0);
  Names events;
  while (events.empty() && step_time()) events = take(client_);
  EXPECT_EQ(events, Names{"DISCONNECTED -110"});
  EXPECT_EQ(sent(), Names(16, "DREQ"));
}

TEST_F(Connecting, EndsAtOnceWhenAProcessDies) {
  connected();
  one_.on_owner_death(now_, client_.owner);
  settle();
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  expect_nothing_left();
}

TEST_F(Connecting, ToADeadServerIsRejected) {
  ask();
  two_.on_owner_death(now_, server_.owner);
  settle();
  EXPECT_EQ(take(client_), Names{"REJECTED 28"});
  expect_nothing_left();
}

TEST_F(Connecting, ToAServerThatDiesBeforeItTookTheRequestIsRejected) {
  listener_ = listening(server_, ipv4("192.0.2.2", kPort));
  active_ = resolved(client_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(client_, active_).error, 0);
  two_.on_channel_closed(now_, server_.channel);
  settle();
  EXPECT_EQ(take(client_), Names{"REJECTED 28"});
  expect_nothing_left();
}

TEST_F(Connecting, SaysGoodbyeForADeadProcessUntilItIsAnswered) {
  connected();
  int lost = 0;
  is_lost_ = [&](const wire::CmMessage& message) { return is<wire::Dreq>(message) && ++lost <= 5; };
  one_.on_owner_death(now_, client_.owner);
  settle();
  while (!two_.has_event(server_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"});
  EXPECT_EQ(lost, 6);
  expect_nothing_left();
}

TEST_F(Connecting, FromAQueuePairWhoseConnectionWasForgottenIsStale) {
  connected();
  is_lost_ = [](const auto&) { return true; };
  one_.on_owner_death(now_, client_.owner);
  settle();
  // The host has lost its memory, and a new program has the same queue pair.
  one_ = Manager({.ca_guid = configuration(1).ca_guid, .seed = 99});
  one_.set_addresses({{ipv4("192.0.2.1").ip, kEth, 3, 2}});
  is_lost_ = {};
  const Program reborn = program(one_);
  const IdHandle again = resolved(reborn, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(reborn, again).error, 0);
  EXPECT_EQ(take(reborn), Names{"REJECTED 10"});
  EXPECT_EQ(take(server_), Names{"DISCONNECTED"}) << "the old one is over";
  let_all_time_pass();
  const IdHandle once_more = resolved(reborn, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(reborn, once_more).error, 0);
  EXPECT_EQ(take(server_).back(), "CONNECT_REQUEST");
}

TEST_F(Connecting, AgainAtOnceWithTheSameQueuePairIsNeverStale) {
  listener_ = listening(server_, ipv4("192.0.2.2", kPort));
  for (int i = 0; i < 1000; ++i) {
    const Program client = program(one_);
    const IdHandle active = resolved(client, ipv4("192.0.2.2", kPort));
    ASSERT_EQ(connect(client, active).error, 0);
    const Event request = take_one(server_);
    ASSERT_EQ(name(request), "CONNECT_REQUEST") << i;
    ASSERT_EQ(accept(server_, request.id).error, 0);
    ASSERT_EQ(take(client), Names{"CONNECT_RESPONSE"});
    ASSERT_EQ(establish(client, active).error, 0);
    one_.on_owner_death(now_, client.owner);
    settle();
    ASSERT_EQ(take(server_), (Names{"ESTABLISHED", "DISCONNECTED"}));
    // The server lets go of every other one only.
    if (i % 2) destroy(server_, request.id);
  }
  expect_nothing_left();
}

TEST_F(Connecting, ToOneselfByXrcNamesTheReceiver) {
  const Program server = program(one_);
  listening(server, ipv4("192.0.2.1", kPort), 0, PortSpace::ib, QpType::xrc_receive);
  active_ = resolved(client_, ipv4("192.0.2.1", kPort), PortSpace::ib, QpType::xrc_send);
  ASSERT_EQ(connect(client_, active_).error, 0);
  passive_ = take_one(server).id;
  EXPECT_EQ(view(server, passive_).qp_type, QpType::xrc_receive);
  ASSERT_EQ(accept(server, passive_).error, 0);
  EXPECT_EQ(take_one(client_).connection.qpn, Qpn{0x222});
  EXPECT_EQ(view(client_, active_).qp->remote_qpn, Qpn{0x222});
}

struct DataLimit {
  const char* what;
  PortSpace space;
  QpType type;
  size_t request, accept, reject;
};

class PrivateDataLimit : public Connecting, public testing::WithParamInterface<DataLimit> {};

TEST_P(PrivateDataLimit, IsThatOfTheMessage) {
  const DataLimit& limit = GetParam();
  for (bool accepting : {true, false}) {
    const Program server = program(one_);
    listening(server, ipv4("192.0.2.1", kPort), 0, limit.space, limit.type);
    const IdHandle active = resolved(client_, ipv4("192.0.2.1", kPort), limit.space, limit.type);
    Offer offer = offered(0x111);
    offer.private_data = bytes(limit.request + 1);
    EXPECT_EQ(connect(client_, active, offer).error, EINVAL);
    offer.private_data = bytes(limit.request);
    ASSERT_EQ(connect(client_, active, offer).error, 0) << "what failed may be tried again";
    const Event request = take_one(server);
    EXPECT_EQ(request.private_data, bytes(limit.request));
    offer = offered(0x222);
    if (accepting) {
      offer.private_data = bytes(limit.accept + 1);
      EXPECT_EQ(accept(server, request.id, offer).error, EINVAL);
      offer.private_data = bytes(limit.accept);
      ASSERT_EQ(accept(server, request.id, offer).error, 0);
      EXPECT_EQ(take_one(client_).private_data, bytes(limit.accept));
    } else {
      EXPECT_EQ(reject(server, request.id, bytes(limit.reject + 1)).error, EINVAL);
      ASSERT_EQ(reject(server, request.id, bytes(limit.reject)).error, 0);
      EXPECT_EQ(take_one(client_).private_data, bytes(limit.reject));
    }
    destroy(client_, active);
    one_.on_owner_death(now_, server.owner);
    settle();
  }
}

INSTANTIATE_TEST_SUITE_P(Messages, PrivateDataLimit,
                         testing::Values(DataLimit{"tcp", PortSpace::tcp, QpType::rc, 56, 196, 148},
                                         DataLimit{"ib_rc", PortSpace::ib, QpType::rc, 56, 196, 148},
                                         DataLimit{"ib_uc", PortSpace::ib, QpType::uc, 56, 196, 148},
                                         DataLimit{"udp", PortSpace::udp, QpType::ud, 180, 136, 136},
                                         DataLimit{"ipoib", PortSpace::ipoib, QpType::ud, 180, 136, 136}),
                         [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace verbatim::cm
