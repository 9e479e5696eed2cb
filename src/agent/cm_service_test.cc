#include "agent/cm_service.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/agent_test_support.h"
#include "agent/cm_protocol.h"
#include "support/two_hosts.h"

namespace verbatim::agent {
namespace {

using namespace commands;
using cm::Names;
using Population = cm::Manager::Population;

constexpr uint16_t kPort = 7174;

// Addresses that the test gives the host.
class FakeNetwork final : public HostNetwork {
 public:
  Result<std::vector<cm::HostAddress>> addresses() override {
    uint64_t count;
    [[maybe_unused]] const ssize_t drained = ::read(changed_.get(), &count, sizeof count);
    if (error_ != 0) return Status{error_};
    return addresses_;
  }
  int fd() const override { return changed_.get(); }

  void set(std::vector<cm::HostAddress> addresses, int error = 0) {
    addresses_ = std::move(addresses);
    error_ = error;
    const uint64_t one = 1;
    EXPECT_EQ(::write(changed_.get(), &one, sizeof one), ssize_t{sizeof one});
  }

 private:
  FileDescriptor changed_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::vector<cm::HostAddress> addresses_{{cm::ipv4("127.0.0.1").ip, 1, 5, 2}};
  int error_ = 0;
};

class CmServiceTest : public testing::Test {
 protected:
  struct Program {
    cm::Owner owner;
    cm::Channel channel;
    FileDescriptor fd;
  };

  CmServiceTest() { EXPECT_TRUE(service_.start(now_).ok()); }

  template <class Command>
  Result<typename Command::Answer> call(cm::Owner owner, const Command& command, const FileDescriptor& socket = {}) {
    const CmService::Reply reply = service_.execute(now_, owner, command, socket);
    EXPECT_TRUE(reply.answer.has_value());
    if (!reply.answer) return Status{EPROTO};
    if (const Failure* failure = std::get_if<Failure>(&*reply.answer)) return Status{failure->error};
    return std::get<typename Command::Answer>(*reply.answer);
  }
  void tell(cm::Owner owner, const Command& command) {
    EXPECT_FALSE(service_.execute(now_, owner, command).answer.has_value());
  }
  // As CmChannel::call().
  template <class Command>
  int end(const Program& program, const Command& command) {
    const int error = call(program, command).error();
    return error == EBUSY ? call(program.owner, command, program.fd).error() : error;
  }
  int destroy(const Program& program, cm::IdHandle id, uint32_t received = 0) {
    return end(program, Destroy{id, program.channel, received});
  }
  template <class Command>
  Result<typename Command::Answer> call(const Program& program, const Command& command) {
    return call(program.owner, command);
  }

  Program another_channel(cm::Owner owner) {
    CmService::Reply reply = service_.execute(now_, owner, OpenChannel{});
    return {owner, std::get<cm::Channel>(reply.answer.value()), std::move(reply.channel)};
  }
  Program program() { return another_channel({++last_owner_}); }

  static bool has_event(const Program& program) { return becomes_readable(program.fd.get(), 0); }
  cm::Event take_one(const Program& program) {
    const cm::Event event = receive_one(program);
    if (event.type == cm::EventType::connect_request) tell(program.owner, TakeRequest{event.id});
    return event;
  }
  cm::Event receive_one(const Program& program) {
    Frame message;
    const ssize_t size = ::recv(program.fd.get(), message.bytes.data(), message.bytes.size(), MSG_DONTWAIT);
    EXPECT_GT(size, 0) << "no event";
    message.size = static_cast<size_t>(std::max<ssize_t>(size, 0));
    const Result<Taken> taken = decode_event(message.view());
    EXPECT_TRUE(taken.ok());
    if (!taken.ok()) return {};
    last_view_ = taken.value().view;
    return taken.value().event;
  }
  Names take(const Program& program) {
    Names names;
    while (has_event(program)) names.push_back(cm::name(take_one(program)));
    return names;
  }

  cm::IdHandle create(const Program& program, cm::PortSpace space = cm::PortSpace::tcp,
                      cm::QpType type = cm::QpType::rc) {
    const cm::IdHandle id = next_handle(program);
    tell(program.owner, Create{id, program.channel, space, type, ++last_context_});
    return id;
  }
  cm::IdHandle next_handle(const Program& program) { return {program.channel.value << 32 | ++last_number_}; }
  cm::IdHandle listening(const Program& program, int backlog = 0) {
    const cm::IdHandle id = create(program);
    EXPECT_EQ(call(program, Bind{id, kServer}).error(), 0);
    EXPECT_EQ(call(program, Listen{id, backlog}).error(), 0);
    return id;
  }
  // An identifier that may connect, its events not taken.
  cm::IdHandle resolved(const Program& program) {
    const cm::IdHandle id = create(program);
    EXPECT_EQ(call(program, ResolveAddress{id, {{}, kServer, Duration::milliseconds(2000), false}}).error(), 0);
    EXPECT_EQ(call(program, ResolveRoute{id}).error(), 0);
    return id;
  }
  cm::IdHandle connecting(const Program& program, const cm::PrivateData& data = {}) {
    const cm::IdHandle id = resolved(program);
    EXPECT_EQ(call(program, Connect{id, {.parameters = {.qpn = {++last_qpn_}}, .private_data = data}}).error(), 0);
    return id;
  }
  // Both have taken all their events.
  std::pair<cm::IdHandle, cm::IdHandle> connected(const Program& client, const Program& server) {
    const cm::IdHandle active = connecting(client);
    EXPECT_EQ(take(client), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
    const cm::Event request = take_one(server);
    EXPECT_EQ(cm::name(request), "CONNECT_REQUEST");
    EXPECT_EQ(call(server, Accept{request.id, {.parameters = {.qpn = {0x222}}}}).error(), 0);
    EXPECT_EQ(take(client), Names{"CONNECT_RESPONSE"});
    EXPECT_EQ(call(client, Establish{active}).error(), 0);
    EXPECT_EQ(take(server), Names{"ESTABLISHED"});
    return {active, request.id};
  }

  // To the next deadline. False: there is none.
  bool step_time() {
    if (service_.next_deadline() == kNever) return false;
    now_ = service_.next_deadline();
    service_.on_deadline(now_);
    return true;
  }
  void expect_nothing_left() {
    for (uint64_t owner = 1; owner <= last_owner_; ++owner) service_.on_owner_death(now_, {owner});
    while (step_time()) {
    }
    EXPECT_EQ(service_.population(), Population{});
    EXPECT_EQ(service_.channels(), 0u);
  }

  const cm::Address kServer = cm::ipv4("127.0.0.1", kPort);
  FakeNetwork* const network_ = new FakeNetwork;  // the service's
  Instant now_{1'000'000'000};
  CmService service_{{.ca_guid = 1, .seed = 1}, std::unique_ptr<HostNetwork>(network_)};
  std::optional<cm::IdView> last_view_;  // that came with the event that was taken last
  uint64_t last_owner_ = 0;
  uint64_t last_context_ = 0;
  uint64_t last_number_ = 0;
  uint32_t last_qpn_ = 0x1000;
};

TEST_F(CmServiceTest, AChannelIsReadableAsLongAsThereAreEvents) {
  const Program client = program();
  EXPECT_FALSE(has_event(client));
  const cm::IdHandle id = resolved(client);
  EXPECT_TRUE(has_event(client));
  const cm::Event first = take_one(client);
  EXPECT_EQ(cm::name(first), "ADDR_RESOLVED");
  EXPECT_EQ(first.id, id);
  EXPECT_EQ(first.context, last_context_);
  ASSERT_TRUE(last_view_.has_value());
  EXPECT_EQ(last_view_->destination, kServer);
  EXPECT_TRUE(has_event(client));
  EXPECT_EQ(cm::name(take_one(client)), "ROUTE_RESOLVED");
  EXPECT_FALSE(has_event(client));
  expect_nothing_left();
}

TEST_F(CmServiceTest, TwoProgramsConnectAndPart) {
  const Program client = program(), server = program();
  listening(server);
  const auto [active, passive] = connected(client, server);
  const Result<cm::IdView> view = call(client, Query{active});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view.value().qp->remote_qpn, Qpn{0x222});
  EXPECT_EQ(view.value().path->mtu, 5);
  EXPECT_EQ(call(client, Disconnect{active}).error(), 0);
  EXPECT_EQ(take(server), Names{"DISCONNECTED"});
  EXPECT_EQ(call(server, Disconnect{passive}).error(), 0);
  EXPECT_EQ(take(client), Names{"DISCONNECTED"});
  EXPECT_EQ(call(client, Destroy{active, client.channel, 4}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, ARejectedProgramIsToldWhy) {
  const Program client = program(), server = program();
  const cm::IdHandle alone = connecting(client);
  ASSERT_TRUE(step_time());
  EXPECT_EQ(take(client), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED", "REJECTED 8"})) << "nobody listens";
  EXPECT_EQ(call(client, Destroy{alone, client.channel, 3}).error(), 0);

  listening(server);
  connecting(client, cm::bytes(3));
  const cm::Event request = take_one(server);
  EXPECT_EQ(request.private_data.bytes()[2], 0x5a);
  EXPECT_EQ(call(server, Reject{request.id, wire::RejectReason::consumer_reject, cm::bytes(7)}).error(), 0);
  take_one(client), take_one(client);
  const cm::Event rejected = take_one(client);
  EXPECT_FALSE(last_view_.has_value()) << "there is nothing new of the identifier";
  EXPECT_EQ(cm::name(rejected), "REJECTED 28");
  EXPECT_EQ(rejected.private_data.bytes()[6], 0x5a);
  expect_nothing_left();
}

TEST_F(CmServiceTest, ARequestBeyondTheBacklogComesAgainWhenThereIsRoom) {
  const Program one = program(), other = program(), server = program();
  listening(server, 1);
  connecting(one);
  connecting(other);
  const cm::Event first = receive_one(server);
  ASSERT_TRUE(step_time());
  EXPECT_EQ(take(server), Names{}) << "the first waits until the program says that it has it";
  tell(server.owner, TakeRequest{first.id});
  ASSERT_TRUE(step_time());
  EXPECT_EQ(take(server), Names{"CONNECT_REQUEST"});
  expect_nothing_left();
}

TEST_F(CmServiceTest, TheEndOfAProgramIsToldToItsPeersAtOnce) {
  const Program client = program(), server = program();
  listening(server);
  connected(client, server);
  service_.on_owner_death(now_, server.owner);
  EXPECT_EQ(take(client), Names{"DISCONNECTED"});
  char byte;
  EXPECT_EQ(::recv(server.fd.get(), &byte, sizeof byte, MSG_DONTWAIT), 0) << "its channel is over";
  expect_nothing_left();
}

TEST_F(CmServiceTest, AClosedChannelIsTheEndOfItsIdentifiers) {
  const Program client = program();
  Program server = program();
  listening(server);
  connected(client, server);
  EXPECT_FALSE(becomes_readable(service_.fd(), 0));
  FileDescriptor copy(::dup(server.fd.get()));
  server.fd.reset();
  EXPECT_FALSE(becomes_readable(service_.fd(), 0)) << "one of two copies";
  copy.reset();
  ASSERT_TRUE(becomes_readable(service_.fd()));
  service_.on_ready(now_);
  EXPECT_EQ(take(client), Names{"DISCONNECTED"});
  EXPECT_EQ(service_.channels(), 1u);
  expect_nothing_left();
}

TEST_F(CmServiceTest, AChannelThatWasClosedBeforeACommandIsInNobodysWay) {
  const Program client = program();
  Program server = program();
  listening(server);
  EXPECT_EQ(call(client, Bind{create(client), kServer}).error(), EADDRINUSE);
  server.fd.reset();
  EXPECT_EQ(call(client, Bind{create(client), kServer}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, AnIdentifierIsDestroyedWithTheEventsThatAreInTheChannel) {
  const Program client = program();
  const cm::IdHandle id = resolved(client), other = resolved(client);
  EXPECT_EQ(receive_one(client).id, id);
  EXPECT_EQ(call(client, Destroy{id, client.channel, 1}).error(), EBUSY) << "one more is in there";
  EXPECT_EQ(call(client, Query{id}).error(), 0) << "nothing has changed";
  EXPECT_EQ(call(client.owner, Destroy{id, client.channel, 1}, client.fd).value(), Ended{1});
  EXPECT_EQ(call(client, Query{id}).error(), ENOENT);
  const cm::Event first = receive_one(client), second = receive_one(client);
  EXPECT_EQ(cm::name(first), "ADDR_RESOLVED");
  EXPECT_EQ(cm::name(second), "ROUTE_RESOLVED");
  EXPECT_TRUE(first.id == other && second.id == other);
  EXPECT_TRUE(last_view_ && last_view_->path) << "with what belongs to them";
  EXPECT_FALSE(has_event(client));
  EXPECT_EQ(call(client, Destroy{other, client.channel, 2}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, AnEventThatAThreadIsAboutToShowIsToBeWaitedFor) {
  const Program client = program();
  const cm::IdHandle id = resolved(client);
  EXPECT_EQ(call(client, Destroy{id, client.channel}).error(), EBUSY);
  receive_one(client);
  EXPECT_EQ(call(client.owner, Destroy{id, client.channel}, client.fd).value(), Ended{1});
  EXPECT_FALSE(has_event(client));
  expect_nothing_left();
}

TEST_F(CmServiceTest, AListenerIsDestroyedWithTheRequestsThatAreInTheChannel) {
  const Program client = program(), server = program();
  const cm::IdHandle listener = listening(server);
  connecting(client);
  EXPECT_EQ(destroy(server, listener), 0);
  EXPECT_FALSE(has_event(server));
  EXPECT_EQ(take(client), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED", "REJECTED 28"}));
  expect_nothing_left();
}

TEST_F(CmServiceTest, AnotherSocketThanTheChannelsIsNotReadForEver) {
  const Program client = program();
  const cm::IdHandle id = resolved(client);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const FileDescriptor ours(ends[0]), theirs(ends[1]);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(::send(ours.get(), "x", 1, 0), 1);
  EXPECT_EQ(call(client.owner, Destroy{id, client.channel}, theirs).error(), 0);
  char byte;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(::recv(theirs.get(), &byte, 1, MSG_DONTWAIT), 1) << "as many as were sent";
  EXPECT_EQ(::recv(theirs.get(), &byte, 1, MSG_DONTWAIT), -1);
  expect_nothing_left();
}

TEST_F(CmServiceTest, EventsThatNeverWereAreNotTakenBack) {
  const Program client = program(), server = program(), thief = program();
  listening(server);
  const cm::IdHandle active = connecting(client), own = resolved(thief);
  const cm::Event request = receive_one(server);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const FileDescriptor ours(ends[0]), theirs(ends[1]);
  const auto forge = [&](const cm::Event& event) {
    const Frame message = encode(Taken{event, {}});
    ASSERT_EQ(::send(ours.get(), message.bytes.data(), message.size, 0), static_cast<ssize_t>(message.size));
  };
  forge(request);
  forge({.type = cm::EventType::connect_request, .id = own, .listener = own});
  EXPECT_EQ(call(thief.owner, Destroy{next_handle(thief), thief.channel}, theirs).error(), ENOENT);
  forge({.type = cm::EventType::connect_request, .id = {77}, .listener = own});
  forge({.type = cm::EventType::disconnected, .id = active});
  EXPECT_EQ(call(thief.owner, Destroy{own, thief.channel}, theirs).error(), 0);
  EXPECT_EQ(take(thief), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"})) << "what was there";
  EXPECT_EQ(call(server, Accept{request.id, {.parameters = {.qpn = {0x222}}}}).error(), 0);
  EXPECT_EQ(take(client), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED", "CONNECT_RESPONSE"}));
  expect_nothing_left();
}

TEST_F(CmServiceTest, EventsBeyondAChannelsRoomComeWhenThereIsRoomAgain) {
  const Program client = program();
  const cm::IdHandle listener = listening(client);
  Names expected;
  size_t waiting = 0;
  while (waiting < 3) {
    resolved(client);
    expected.insert(expected.end(), {"ADDR_RESOLVED", "ROUTE_RESOLVED"});
    waiting = service_.population().events;
    ASSERT_LT(expected.size(), 100'000u) << "a channel has no end";
  }
  EXPECT_FALSE(becomes_readable(service_.fd(), 0));
  Names received;
  while (received.size() < expected.size()) {
    const Names some = take(client);
    ASSERT_FALSE(some.empty()) << received.size();
    received.insert(received.end(), some.begin(), some.end());
    service_.on_ready(now_);
  }
  EXPECT_EQ(received, expected);
  EXPECT_FALSE(becomes_readable(service_.fd(), 0)) << "nothing waits for room";
  EXPECT_EQ(call(client, Destroy{listener, client.channel}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, EventsMoveWithTheirIdentifier) {
  const Program client = program(), other = another_channel(client.owner);
  const cm::IdHandle id = resolved(client);
  EXPECT_EQ(call(client, Migrate{id, client.channel, 0, other.channel}).error(), EBUSY);
  EXPECT_EQ(end(client, Migrate{id, client.channel, 0, other.channel}), 0);
  EXPECT_FALSE(has_event(client));
  EXPECT_EQ(take(other), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
  EXPECT_EQ(call(client, Destroy{id, other.channel, 2}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, NobodyMayUseWhatIsAnothers) {
  const Program client = program(), thief = program();
  const cm::IdHandle id = resolved(client), own = create(thief);
  const cm::IdHandle wanted = next_handle(client), elsewhere = next_handle(client);
  tell(thief.owner, Create{wanted, client.channel});
  tell(thief.owner, Create{elsewhere, thief.channel});
  EXPECT_EQ(call(client, Query{wanted}).error(), ENOENT);
  EXPECT_EQ(call(thief, Query{elsewhere}).error(), ENOENT) << "a name of another's channel";
  EXPECT_EQ(call(thief, Migrate{own, thief.channel, 0, client.channel}).error(), EINVAL);
  EXPECT_EQ(call(thief, Migrate{id, client.channel, 0, thief.channel}).error(), EINVAL);
  EXPECT_EQ(call(thief, Migrate{id, thief.channel, 9, thief.channel}).error(), EINVAL);
  EXPECT_EQ(call(thief, Destroy{id, client.channel}).error(), EINVAL);
  EXPECT_EQ(call(thief, Destroy{id, thief.channel, 9}).error(), EINVAL);
  EXPECT_EQ(call(thief.owner, Destroy{id, client.channel}, client.fd).error(), EINVAL);
  EXPECT_EQ(call(thief, Query{id}).error(), EINVAL);
  EXPECT_EQ(call(thief, Query{{1'000'000}}).error(), ENOENT);
  EXPECT_EQ(take(client), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
  expect_nothing_left();
}

TEST_F(CmServiceTest, APortSpaceHasItsTypesOfQueuePairs) {
  using enum cm::PortSpace;
  const Program client = program();
  const auto error = [&](cm::PortSpace space, cm::QpType type) {
    return call(client, Query{create(client, space, type)}).error();
  };
  EXPECT_EQ(error(tcp, cm::QpType::rc), 0);
  EXPECT_EQ(error(tcp, cm::QpType::ud), ENOENT);
  EXPECT_EQ(error(udp, cm::QpType::ud), 0);
  EXPECT_EQ(error(udp, cm::QpType::rc), ENOENT);
  EXPECT_EQ(error(ipoib, cm::QpType::ud), 0);
  EXPECT_EQ(error(ipoib, cm::QpType::uc), ENOENT);
  EXPECT_EQ(error(ib, cm::QpType::xrc_receive), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, AnAddressOfAnotherHostCannotBeReached) {
  const Program client = program();
  const cm::IdHandle id = create(client);
  const cm::Resolve elsewhere{{}, cm::ipv4("192.0.2.9", kPort), Duration::milliseconds(2000), false};
  EXPECT_EQ(call(client, ResolveAddress{id, elsewhere}).error(), 0);
  EXPECT_EQ(take(client), Names{"ADDR_ERROR " + std::to_string(-EHOSTUNREACH)});
  expect_nothing_left();
}

TEST_F(CmServiceTest, NewAddressesOfTheHostAreNoticed) {
  const Program client = program();
  const cm::Address address = cm::ipv4("192.0.2.1", kPort);
  EXPECT_EQ(call(client, Bind{create(client), address}).error(), EADDRNOTAVAIL);
  network_->set({{address.ip, 2, 3, 2}});
  EXPECT_TRUE(becomes_readable(service_.fd(), 0));
  EXPECT_EQ(call(client, Bind{create(client), address}).error(), 0);
  EXPECT_FALSE(becomes_readable(service_.fd(), 0));
  EXPECT_EQ(call(client, Bind{create(client), kServer}).error(), EADDRNOTAVAIL) << "gone";
  expect_nothing_left();
}

TEST_F(CmServiceTest, AddressesThatCannotBeReadStayAsTheyWereAndAreReadLater) {
  const Program client = program();
  const cm::Address address = cm::ipv4("192.0.2.1", kPort);
  network_->set({{address.ip, 2, 3, 2}}, EMFILE);
  EXPECT_EQ(call(client, Bind{create(client), kServer}).error(), 0);
  const Instant retry = service_.next_deadline();
  EXPECT_EQ(retry, now_ + Duration::milliseconds(100));
  ASSERT_TRUE(step_time());
  EXPECT_GT(service_.next_deadline(), now_) << "again later";
  network_->set({{address.ip, 2, 3, 2}});
  ASSERT_TRUE(step_time());
  EXPECT_EQ(call(client, Bind{create(client), address}).error(), 0);
  EXPECT_EQ(service_.next_deadline(), kNever);
  expect_nothing_left();
}

TEST_F(CmServiceTest, OptionsReachTheirIdentifier) {
  const Program client = program();
  const cm::IdHandle id = create(client);
  EXPECT_EQ(call(client, SetTos{id, 0x28}).error(), 0);
  EXPECT_EQ(call(client, SetAckTimeout{id, 12}).error(), 0);
  EXPECT_EQ(call(client, SetReuseAddress{id, true}).error(), 0);
  EXPECT_EQ(call(client, SetFamilyOnly{id, true}).error(), 0);
  EXPECT_EQ(call(client, SetContext{id, 77}).error(), 0);
  EXPECT_EQ(call(client, Bind{id, kServer}).error(), 0);
  EXPECT_EQ(call(client, ResolveAddress{id, {{}, kServer, {}, false}}).error(), 0);
  EXPECT_EQ(take_one(client).context, 77u);
  EXPECT_EQ(call(client, SetPath{id, {.mtu = 2}}).error(), 0);
  EXPECT_EQ(take(client), Names{"ROUTE_RESOLVED"});
  const cm::IdView view = call(client, Query{id}).value();
  EXPECT_EQ(view.tos, 0x28);
  EXPECT_EQ(view.ack_timeout, 12);
  EXPECT_EQ(view.path->mtu, 2);
  // The same address, for who has said so too.
  const cm::IdHandle same = create(client);
  EXPECT_EQ(call(client, SetReuseAddress{same, true}).error(), 0);
  EXPECT_EQ(call(client, Bind{same, kServer}).error(), 0);
  EXPECT_EQ(call(client, Bind{create(client), kServer}).error(), EADDRINUSE);
  expect_nothing_left();
}

TEST_F(CmServiceTest, PrivilegedPortsAreForThePrivileged) {
  const Program client = program();
  const cm::IdHandle id = create(client);
  EXPECT_EQ(call(client, Bind{id, kServer.with_port(80), false}).error(), EACCES);
  EXPECT_EQ(call(client, Bind{id, kServer.with_port(80), true}).error(), 0);
  expect_nothing_left();
}

TEST_F(CmServiceTest, AGroupIsJoinedAndLeft) {
  const Program client = program();
  const cm::IdHandle id = create(client, cm::PortSpace::udp, cm::QpType::ud);
  EXPECT_EQ(call(client, Bind{id, kServer}).error(), 0);
  const Result<cm::MembershipHandle> membership = call(client, Join{id, cm::ipv4("224.0.0.9"), 5});
  ASSERT_TRUE(membership.ok());
  const cm::Event joined = take_one(client);
  EXPECT_EQ(cm::name(joined), "MULTICAST_JOIN");
  EXPECT_EQ(joined.membership, membership.value());
  EXPECT_EQ(call(client, Leave{membership.value(), client.channel, 1}).error(), 0);
  EXPECT_EQ(call(client, Leave{membership.value(), client.channel, 1}).error(), ENOENT);

  const cm::MembershipHandle again = call(client, Join{id, cm::ipv4("224.0.0.9"), 5}).value();
  EXPECT_EQ(call(client, Leave{again, client.channel}).error(), EBUSY);
  EXPECT_EQ(end(client, Leave{again, client.channel}), 0);
  EXPECT_FALSE(has_event(client)) << "left before the program was told";
  expect_nothing_left();
}

TEST_F(CmServiceTest, WhatNobodyAnswersIsGivenUpInTheEnd) {
  const Program client = program(), server = program();
  listening(server, 1);
  connecting(client);
  const Program late = program();
  connecting(late);
  EXPECT_EQ(take(late), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
  while (!has_event(late) && step_time()) {
  }
  EXPECT_EQ(take(late), Names{"UNREACHABLE " + std::to_string(-ETIMEDOUT)});
  expect_nothing_left();
}

}  // namespace
}  // namespace verbatim::agent
