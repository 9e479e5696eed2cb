// What rdma_rxe said in our captures, said to a manager: it answers as the other rdma_rxe did, and asks as that one
// did, byte by byte but for numbers that are drawn anew.
#include "support/two_hosts.h"
#include "wire/captured_mads.h"

namespace verbatim::cm {
namespace {

using wire::captured_mad;
using wire::CmMessage;

CmMessage parsed(const wire::Mad& mad) { return std::get<CmMessage>(wire::parse_cm(mad)); }

template <class Message>
Message captured(std::string_view capture, std::string_view name) {
  return std::get<Message>(parsed(captured_mad(capture, name)).body);
}

// One end of the captures is a manager: 10.77.0.2 is the server there, 10.77.0.3 the client.
class AmongRxe : public testing::Test {
 protected:
  static constexpr Owner kOwner{1};
  static constexpr Channel kChannel{1};
  static constexpr uint16_t kPort = 7174;

  Manager host(const char* own, uint64_t guid) {
    Manager manager({.ca_guid = guid, .seed = 1});
    manager.set_addresses({{ipv4(own).ip, 2, 3, 0}});
    return manager;
  }
  Reason hear(Manager& manager, const wire::Mad& mad) {
    const bool is_client = manager_is_client_;
    const Gid client = ipv4("10.77.0.3").ip, server = ipv4("10.77.0.2").ip;
    return manager.on_mad(now_, is_client ? MadAddress{client, server} : MadAddress{server, client}, mad);
  }
  CmMessage said(Manager& manager) {
    const auto mad = manager.poll_mad();
    EXPECT_TRUE(mad.has_value());
    return mad ? parsed(mad->bytes) : CmMessage{};
  }
  Event event(Manager& manager) {
    const auto event = manager.take_event(kChannel);
    EXPECT_TRUE(event.has_value());
    if (event && event->type == EventType::connect_request) {
      EXPECT_EQ(manager.take_request(kOwner, event->id).error, 0);
    }
    return event.value_or(Event{});
  }
  static IdHandle create(Manager& manager, PortSpace space, QpType type) {
    constexpr IdHandle kId{1};
    EXPECT_EQ(manager.create(kOwner, kId, kChannel, space, type, 0).error, 0);
    return kId;
  }
  IdHandle resolved(Manager& manager, PortSpace space, QpType type, uint16_t source_port, uint16_t port) {
    const IdHandle id = create(manager, space, type);
    const Resolve resolve{ipv4("10.77.0.3", source_port), ipv4("10.77.0.2", port), Duration::milliseconds(1000), false};
    EXPECT_EQ(manager.resolve_address(now_, kOwner, id, resolve).error, 0);
    const auto question = manager.poll_question();
    EXPECT_TRUE(question.has_value());
    manager.on_answer(id, Route{.source = {ipv4("10.77.0.3").ip, 2, 3, 0}});
    EXPECT_EQ(manager.resolve_route(kOwner, id).error, 0);
    EXPECT_EQ(name(event(manager)), "ADDR_RESOLVED");
    EXPECT_EQ(name(event(manager)), "ROUTE_RESOLVED");
    return id;
  }

  const Instant now_{1};
  bool manager_is_client_ = false;
};

TEST_F(AmongRxe, TheServerOfRpingAnswersAsItDid) {
  Manager server = host("10.77.0.2", 0x505400fffe4d0002);
  const IdHandle listener = create(server, PortSpace::tcp, QpType::rc);
  ASSERT_EQ(server.bind(kOwner, listener, ipv4("10.77.0.2", kPort), false).error, 0);
  ASSERT_EQ(server.listen(now_, kOwner, listener, 1).error, 0);
  ASSERT_EQ(hear(server, captured_mad("rping", "REQ")), Reason::none);
  const Event request = event(server);
  EXPECT_EQ(name(request), "CONNECT_REQUEST");
  EXPECT_EQ(server.query(kOwner, request.id).value().destination, ipv4("10.77.0.3", 0x9cc9));

  ConnectParameters parameters = request.connection;
  parameters.qpn = Qpn{0x11};
  ASSERT_EQ(server.accept(now_, kOwner, request.id, {.parameters = parameters}).error, 0);
  const CmMessage reply = said(server);
  const auto& rep = std::get<wire::Rep>(reply.body);
  CmMessage expected = parsed(captured_mad("rping", "REP"));
  std::get<wire::Rep>(expected.body).local_communication_id = rep.local_communication_id;
  std::get<wire::Rep>(expected.body).starting_psn = rep.starting_psn;
  EXPECT_EQ(text(reply), text(expected));

  // What follows names us as we called ourselves.
  auto rtu = captured<wire::Rtu>("rping", "RTU");
  rtu.remote_communication_id = rep.local_communication_id;
  EXPECT_EQ(hear(server, wire::emit_cm({reply.transaction_id, rtu})), Reason::none);
  EXPECT_EQ(name(event(server)), "ESTABLISHED");
  auto dreq = captured<wire::Dreq>("rping", "DREQ");
  dreq.remote_communication_id = rep.local_communication_id;
  EXPECT_EQ(hear(server, wire::emit_cm({reply.transaction_id, dreq})), Reason::none);
  EXPECT_EQ(name(event(server)), "DISCONNECTED");
  ASSERT_EQ(server.disconnect(now_, kOwner, request.id).error, 0);
  auto drep = captured<wire::Drep>("rping", "DREP");
  drep.local_communication_id = rep.local_communication_id;
  EXPECT_EQ(text(said(server)), text(CmMessage{reply.transaction_id, drep}));
}

TEST_F(AmongRxe, TheClientOfRpingAsksAsItDid) {
  manager_is_client_ = true;
  Manager client = host("10.77.0.3", 0x505400fffe4d0003);
  const IdHandle id = resolved(client, PortSpace::tcp, QpType::rc, 0x9cc9, kPort);
  const Offer offer{
      .parameters = {
          .qpn = Qpn{0x11}, .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7}};
  ASSERT_EQ(client.connect(now_, kOwner, id, offer).error, 0);
  const CmMessage request = said(client);
  const auto& req = std::get<wire::Req>(request.body);
  CmMessage expected = parsed(captured_mad("rping", "REQ"));
  expected.transaction_id = request.transaction_id;
  std::get<wire::Req>(expected.body).local_communication_id = req.local_communication_id;
  std::get<wire::Req>(expected.body).starting_psn = req.starting_psn;
  EXPECT_EQ(text(request), text(expected));

  auto rep = captured<wire::Rep>("rping", "REP");
  rep.remote_communication_id = req.local_communication_id;
  ASSERT_EQ(hear(client, wire::emit_cm({request.transaction_id, rep})), Reason::none);
  EXPECT_EQ(name(event(client)), "CONNECT_RESPONSE");
  ASSERT_EQ(client.establish(now_, kOwner, id).error, 0);
  auto rtu = captured<wire::Rtu>("rping", "RTU");
  rtu.local_communication_id = req.local_communication_id;
  EXPECT_EQ(text(said(client)), text(CmMessage{request.transaction_id, rtu}));
  const QpAttributes qp = *client.query(kOwner, id).value().qp;
  EXPECT_EQ(qp.send_psn, Psn{0xc81eb1});
  EXPECT_EQ(qp.timeout, 19);
}

TEST_F(AmongRxe, APortWhereNobodyListensIsRefusedAsItWas) {
  Manager server = host("10.77.0.2", 0x505400fffe4d0002);
  EXPECT_EQ(hear(server, captured_mad("ucmatose-reject", "REQ")), Reason::none);
  server.on_deadline(server.next_deadline());
  EXPECT_EQ(text(said(server)), text(parsed(captured_mad("ucmatose-reject", "REJ"))));
}

TEST_F(AmongRxe, TheServerOfUdaddyAnswersAsItDid) {
  Manager server = host("10.77.0.2", 0x505400fffe4d0002);
  const IdHandle listener = create(server, PortSpace::udp, QpType::ud);
  ASSERT_EQ(server.bind(kOwner, listener, Address::wildcard(Family::ipv4, kPort), false).error, 0);
  ASSERT_EQ(server.listen(now_, kOwner, listener, 1).error, 0);
  ASSERT_EQ(hear(server, captured_mad("udaddy", "SIDR_REQ")), Reason::none);
  const Event request = event(server);
  ASSERT_EQ(server.accept(now_, kOwner, request.id, {.parameters = {.qpn = Qpn{0x15}}}).error, 0);
  EXPECT_EQ(text(said(server)), text(parsed(captured_mad("udaddy", "SIDR_REP"))));
}

TEST_F(AmongRxe, TheClientOfUdaddyAsksAsItDid) {
  manager_is_client_ = true;
  Manager client = host("10.77.0.3", 0x505400fffe4d0003);
  const IdHandle id = resolved(client, PortSpace::udp, QpType::ud, 0xe732, kPort);
  ASSERT_EQ(client.connect(now_, kOwner, id, {}).error, 0);
  const CmMessage request = said(client);
  CmMessage expected = parsed(captured_mad("udaddy", "SIDR_REQ"));
  expected.transaction_id = request.transaction_id;
  std::get<wire::SidrReq>(expected.body).request_id = std::get<wire::SidrReq>(request.body).request_id;
  EXPECT_EQ(text(request), text(expected));
  auto rep = captured<wire::SidrRep>("udaddy", "SIDR_REP");
  rep.request_id = std::get<wire::SidrReq>(request.body).request_id;
  ASSERT_EQ(hear(client, wire::emit_cm({request.transaction_id, rep})), Reason::none);
  EXPECT_EQ(event(client).datagram.qpn, Qpn{0x15});
}

TEST_F(AmongRxe, AListenerOfIpv6HearsRpingOverIpv6) {
  Manager server({.ca_guid = 1, .seed = 1});
  const Gid own = ipv6("fe80::5054:ff:fe4d:2").ip, peer = ipv6("fe80::5054:ff:fe4d:3").ip;
  server.set_addresses({{own, 2, 3, 0}});
  const IdHandle listener = create(server, PortSpace::tcp, QpType::rc);
  ASSERT_EQ(server.bind(kOwner, listener, Address::wildcard(Family::ipv6, kPort), false).error, 0);
  ASSERT_EQ(server.listen(now_, kOwner, listener, 1).error, 0);
  ASSERT_EQ(server.on_mad(now_, {own, peer}, captured_mad("rping-ipv6", "REQ")), Reason::none);
  const IdView view = server.query(kOwner, event(server).id).value();
  EXPECT_EQ(view.source, ipv6("fe80::5054:ff:fe4d:2", kPort, 2));
  EXPECT_EQ(view.destination, ipv6("fe80::5054:ff:fe4d:3", 0xa054, 2));
}

}  // namespace
}  // namespace verbatim::cm
