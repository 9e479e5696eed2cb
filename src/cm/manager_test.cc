// Identifiers: commands and states, addresses, options, channels, datagrams, multicast, and nonsense from the network.
#include "cm/manager.h"

#include <set>

#include "support/two_hosts.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::cm {
namespace {

class AnIdentifier : public TwoHosts {
 protected:
  const Program me_ = program(one_), other_ = program(one_), far_ = program(two_);
};

// --- who may do what ------------------------------------------------------------------------------------------------

TEST(CommandTable, AllowsEachCommandInItsStatesOnly) {
  using enum IdState;
  const std::map<Command, std::set<IdState>> allowed{{Command::bind, {idle}},
                                                     {Command::resolve_address, {idle, bound}},
                                                     {Command::resolve_route, {address_resolved}},
                                                     {Command::set_path, {address_resolved}},
                                                     {Command::listen, {idle, bound}},
                                                     {Command::connect, {route_resolved}},
                                                     {Command::accept, {connecting}},
                                                     {Command::establish, {connecting}},
                                                     {Command::reject, {connecting}},
                                                     {Command::disconnect, {connecting, disconnected}},
                                                     {Command::notify_established, {connecting}},
                                                     {Command::join, {bound, address_resolved}},
                                                     {Command::set_family_only, {idle, bound}},
                                                     {Command::stop_reusing_address, {idle}}};
  ASSERT_EQ(allowed.size(), static_cast<size_t>(kLastCommand) + 1);
  for (const auto& [command, states] : allowed)
    for (int state = 0; state <= static_cast<int>(kLastIdState); ++state)
      EXPECT_EQ(check(command, static_cast<IdState>(state)).error,
                states.contains(static_cast<IdState>(state)) ? 0 : EINVAL)
          << static_cast<int>(command) << " " << state;
}

TEST_F(AnIdentifier, IsItsOwnersAlone) {
  const IdHandle id = create(me_);
  for (const auto& [owner, error] : {std::pair{other_.owner, EINVAL}, std::pair{me_.owner, ENOENT}}) {
    const IdHandle which = error == ENOENT ? IdHandle{999} : id;
    EXPECT_EQ(one_.destroy(now_, owner, which).error, error);
    EXPECT_EQ(one_.migrate(owner, which, me_.channel).error, error);
    EXPECT_EQ(one_.set_context(owner, which, 1).error, error);
    EXPECT_EQ(one_.query(owner, which).error(), error);
    EXPECT_EQ(one_.set_tos(owner, which, 1).error, error);
    EXPECT_EQ(one_.set_ack_timeout(owner, which, 1).error, error);
    EXPECT_EQ(one_.set_reuse_address(owner, which, true).error, error);
    EXPECT_EQ(one_.set_reuse_address(owner, which, false).error, error);
    EXPECT_EQ(one_.set_family_only(owner, which, true).error, error);
    EXPECT_EQ(one_.set_path(owner, which, {}).error, error);
    EXPECT_EQ(one_.bind(owner, which, ipv4("127.0.0.1"), false).error, error);
    EXPECT_EQ(one_.resolve_address(now_, owner, which, {{}, ipv4("127.0.0.1", 1), {}, false}).error, error);
    EXPECT_EQ(one_.resolve_route(owner, which).error, error);
    EXPECT_EQ(one_.listen(now_, owner, which, 1).error, error);
    EXPECT_EQ(one_.connect(now_, owner, which, {}).error, error);
    EXPECT_EQ(one_.accept(now_, owner, which, {}).error, error);
    EXPECT_EQ(one_.establish(now_, owner, which).error, error);
    EXPECT_EQ(one_.reject(now_, owner, which, wire::RejectReason::consumer_reject, {}).error, error);
    EXPECT_EQ(one_.disconnect(now_, owner, which).error, error);
    EXPECT_EQ(one_.notify_established(now_, owner, which).error, error);
    EXPECT_EQ(one_.join(owner, which, ipv4("224.0.0.9"), 1).error(), error);
  }
}

TEST_F(AnIdentifier, ThatListensOrIsNewHasNothingToAcceptOrEnd) {
  const IdHandle listener = listening(me_, ipv4("127.0.0.1", kPort));
  for (IdHandle id : {listener, create(me_)}) {
    EXPECT_EQ(accept(me_, id).error, EINVAL);
    EXPECT_EQ(establish(me_, id).error, EINVAL);
    EXPECT_EQ(reject(me_, id).error, EINVAL);
    EXPECT_EQ(disconnect(me_, id).error, EINVAL);
  }
}

TEST_F(AnIdentifier, CarriesItsContextInEvents) {
  const IdHandle id = create(me_);
  ASSERT_EQ(one_.set_context(me_.owner, id, 0x1234).error, 0);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  EXPECT_EQ(take_one(me_).context, 0x1234u);
}

// --- addresses ------------------------------------------------------------------------------------------------------

TEST_F(AnIdentifier, BindsToAddressesOfItsHost) {
  for (const Address& source :
       {ipv4("192.0.2.1", kPort), ipv4("127.0.0.1", kPort), ipv6("::1", kPort), ipv6("fe80::1", kPort, kEth)}) {
    const IdHandle id = create(me_);
    EXPECT_EQ(one_.bind(me_.owner, id, source, false).error, 0);
    EXPECT_EQ(view(me_, id).source, source);
    EXPECT_TRUE(view(me_, id).has_device);
    EXPECT_EQ(one_.bind(me_.owner, id, source, false).error, EINVAL) << "twice";
    EXPECT_EQ(one_.bind(other_.owner, create(other_), source, false).error, EADDRINUSE);
  }
}

TEST_F(AnIdentifier, BindsToTheWildcardWithoutADevice) {
  const IdHandle id = create(me_);
  EXPECT_EQ(one_.bind(me_.owner, id, Address::wildcard(Family::ipv4, kPort), false).error, 0);
  EXPECT_FALSE(view(me_, id).has_device);
}

TEST_F(AnIdentifier, GetsAPortWhenItAsksForNone) {
  std::set<uint16_t> ports;
  for (int i = 0; i < 20; ++i) {
    const IdHandle id = create(me_);
    ASSERT_EQ(one_.bind(me_.owner, id, ipv4("127.0.0.1"), false).error, 0);
    ports.insert(view(me_, id).source.port);
  }
  EXPECT_EQ(ports.size(), 20u);
  EXPECT_GE(*ports.begin(), 32768);
  EXPECT_LE(*ports.rbegin(), 60999);
  EXPECT_GT(*ports.rbegin() - *ports.begin(), 100) << "drawn, not counted";
}

TEST_F(AnIdentifier, CannotBindToWhatIsNot) {
  const IdHandle id = create(me_);
  EXPECT_EQ(one_.bind(me_.owner, id, {}, false).error, EAFNOSUPPORT);
  EXPECT_EQ(one_.bind(me_.owner, id, ipv4("192.0.2.2", kPort), false).error, EADDRNOTAVAIL);
  EXPECT_EQ(one_.bind(me_.owner, id, ipv6("fe80::1", kPort), false).error, EINVAL) << "on which interface?";
  EXPECT_EQ(one_.bind(me_.owner, id, ipv6("fe80::1", kPort, kLo), false).error, EADDRNOTAVAIL);
  EXPECT_EQ(one_.bind(me_.owner, id, ipv4("127.0.0.1", 80), false).error, EACCES);
  EXPECT_EQ(view(me_, id).state, IdState::idle);
  EXPECT_EQ(one_.bind(me_.owner, id, ipv4("127.0.0.1", 80), true).error, 0);
}

TEST_F(AnIdentifier, ListensAnywhereWhenItIsNotBound) {
  const IdHandle id = create(me_);
  EXPECT_EQ(one_.listen(now_, me_.owner, id, 1).error, 0);
  EXPECT_EQ(view(me_, id).source, Address::wildcard(Family::ipv4, view(me_, id).source.port));
  EXPECT_GE(view(me_, id).source.port, 32768);
}

TEST_F(AnIdentifier, FindsItsOwnAddressOnTheWayToAnother) {
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("192.0.2.11", kPort)).error, 0);
  EXPECT_EQ(take(me_), Names{"ADDR_RESOLVED"});
  EXPECT_EQ(view(me_, id).source.ip, ipv4("192.0.2.11").ip);
  EXPECT_TRUE(view(me_, id).has_device);
  const IdHandle bound = create(me_);
  ASSERT_EQ(resolve(me_, bound, ipv4("192.0.2.11", kPort), ipv4("127.0.0.1")).error, 0);
  EXPECT_EQ(view(me_, bound).source.ip, ipv4("127.0.0.1").ip);
  const IdHandle far = create(me_);
  ASSERT_EQ(resolve(me_, far, ipv4("192.0.2.2", kPort)).error, 0);
  EXPECT_EQ(view(me_, far).source.ip, ipv4("192.0.2.1").ip);
}

TEST_F(AnIdentifier, ThatAsksForTheWildcardMeansItself) {
  const IdHandle bound = create(me_);
  ASSERT_EQ(resolve(me_, bound, Address::wildcard(Family::ipv4, kPort), ipv4("192.0.2.1")).error, 0);
  EXPECT_EQ(view(me_, bound).destination, ipv4("192.0.2.1", kPort));
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, Address::wildcard(Family::ipv6, kPort)).error, 0);
  EXPECT_EQ(view(me_, id).destination, ipv6("::1", kPort));
  EXPECT_EQ(view(me_, id).source.ip, ipv6("::1").ip);
}

TEST_F(AnIdentifier, KnowsTheInterfaceOfALinkLocalDestination) {
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv6("fe80::1", kPort)).error, 0);
  EXPECT_EQ(view(me_, id).destination, ipv6("fe80::1", kPort, kEth));
  EXPECT_EQ(view(me_, id).source.scope_id, kEth);
}

TEST_F(AnIdentifier, SpeaksToAGroupFromItsAddressOrTheFirst) {
  const auto source_towards = [&](const Address& group, const Address& source = {}) {
    const IdHandle id = create(me_, PortSpace::udp, QpType::ud);
    EXPECT_EQ(resolve(me_, id, group, source).error, 0);
    EXPECT_EQ(take(me_), Names{"ADDR_RESOLVED"});
    EXPECT_TRUE(view(me_, id).has_device);
    return view(me_, id).source.ip;
  };
  EXPECT_EQ(source_towards(ipv4("224.0.0.9", kPort)), ipv4("192.0.2.1").ip);
  EXPECT_EQ(source_towards(ipv4("224.0.0.9", kPort), ipv4("127.0.0.1")), ipv4("127.0.0.1").ip);
  EXPECT_EQ(source_towards(ipv6("ff0e::9", kPort)), ipv6("fe80::1").ip);
  EXPECT_EQ(source_towards(ipv6("ff02::9", kPort, kLo)), ipv6("::1").ip);
}

TEST_F(AnIdentifier, IsToldThatAHostCannotBeReached) {
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("198.51.100.1", kPort)).error, 0);
  EXPECT_EQ(take(me_), Names{"ADDR_ERROR -113"});
  EXPECT_EQ(view(me_, id).state, IdState::bound);
  EXPECT_EQ(resolve(me_, id, ipv4("192.0.2.1", kPort)).error, 0) << "it may ask for another";
  EXPECT_EQ(take(me_), Names{"ADDR_RESOLVED"});
}

TEST_F(AnIdentifier, DoesNotWaitForAnAnswerForEver) {
  const IdHandle id = create(me_);
  ASSERT_EQ(one_.resolve_address(now_, me_.owner, id, {{}, ipv4("198.51.100.1", 1), Duration::milliseconds(300), false})
                .error,
            0);
  EXPECT_EQ(view(me_, id).state, IdState::resolving_address);
  EXPECT_EQ(one_.next_deadline(), now_ + Duration::milliseconds(300));
  one_.on_deadline(now_ + Duration::milliseconds(299));
  EXPECT_FALSE(one_.has_event(me_.channel));
  one_.on_deadline(now_ + Duration::milliseconds(300));
  EXPECT_EQ(take(me_), Names{"ADDR_ERROR -110"});
  one_.on_answer(id, Route{.source = {ipv4("192.0.2.1").ip, kEth, 3, 2}});
  EXPECT_EQ(take(me_), Names{}) << "too late";
  EXPECT_FALSE(one_.poll_question()) << "nobody wants to know any more";
}

TEST_F(AnIdentifier, CannotResolveBetweenFamilies) {
  const IdHandle id = create(me_);
  EXPECT_EQ(resolve(me_, id, {}).error, EAFNOSUPPORT);
  EXPECT_EQ(resolve(me_, id, ipv4("127.0.0.1", 1), ipv6("::1")).error, EINVAL);
  EXPECT_EQ(view(me_, id).state, IdState::idle);
  EXPECT_EQ(resolve(me_, id, ipv4("127.0.0.1", 1), ipv4("192.0.2.2")).error, EADDRNOTAVAIL);
  EXPECT_EQ(view(me_, id).state, IdState::idle);
}

TEST_F(AnIdentifier, HasAPathWhenItsRouteIsResolved) {
  const IdHandle id = create(me_);
  ASSERT_EQ(one_.set_tos(me_.owner, id, 0x28).error, 0);
  ASSERT_EQ(one_.set_ack_timeout(me_.owner, id, 14).error, 0);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  EXPECT_FALSE(view(me_, id).path);
  ASSERT_EQ(one_.resolve_route(me_.owner, id).error, 0);
  const Path path = *view(me_, id).path;
  EXPECT_EQ(path.source, ipv4("127.0.0.1").ip);
  EXPECT_EQ(path.destination, ipv4("127.0.0.1").ip);
  EXPECT_EQ(path.interface_index, kLo);
  EXPECT_EQ(path.mtu, 5);
  EXPECT_EQ(path.traffic_class, 0x28);
  EXPECT_EQ(path.packet_lifetime, 13) << "half the ACK timeout (IBTA 12.7.34)";
  EXPECT_EQ(path.flow_label, (view(me_, id).source.port * 31u + kPort) & 0xfffff);
}

TEST_F(AnIdentifier, TakesAPathOfTheProgram) {
  const IdHandle id = create(me_);
  EXPECT_EQ(one_.set_path(me_.owner, id, {}).error, EINVAL);
  ASSERT_EQ(resolve(me_, id, ipv4("192.0.2.1", kPort)).error, 0);
  for (const Path& wrong : {Path{.flow_label = 1 << 20}, Path{.mtu = 16}, Path{.rate = 64}, Path{.service_level = 16},
                            Path{.packet_lifetime = 32}})
    EXPECT_EQ(one_.set_path(me_.owner, id, wrong).error, EINVAL);
  ASSERT_EQ(one_.set_path(me_.owner, id, {.traffic_class = 3, .mtu = 1, .packet_lifetime = 2}).error, 0);
  EXPECT_EQ(take(me_), (Names{"ADDR_RESOLVED", "ROUTE_RESOLVED"}));
  EXPECT_EQ(view(me_, id).path->mtu, 1);
  EXPECT_EQ(view(me_, id).path->destination, ipv4("192.0.2.1").ip);
}

// --- options --------------------------------------------------------------------------------------------------------

TEST_F(AnIdentifier, SharesItsAddressOnlyIfBothSaySo) {
  const auto bind_error = [&](bool reuse) {
    const IdHandle id = create(me_);
    EXPECT_EQ(one_.set_reuse_address(me_.owner, id, reuse).error, 0);
    return one_.bind(me_.owner, id, ipv4("127.0.0.1", kPort), false).error;
  };
  EXPECT_EQ(bind_error(true), 0);
  EXPECT_EQ(bind_error(false), EADDRINUSE);
  EXPECT_EQ(bind_error(true), 0);
}

TEST_F(AnIdentifier, CanBeMadeToReuseAfterwardsButNotStop) {
  const IdHandle id = create(me_);
  ASSERT_EQ(one_.bind(me_.owner, id, ipv4("127.0.0.1", kPort), false).error, 0);
  EXPECT_EQ(one_.set_reuse_address(me_.owner, id, true).error, 0);
  EXPECT_EQ(one_.set_reuse_address(me_.owner, id, false).error, EINVAL);
  const IdHandle second = create(me_);
  EXPECT_EQ(one_.set_reuse_address(me_.owner, second, true).error, 0);
  EXPECT_EQ(one_.bind(me_.owner, second, ipv4("127.0.0.1", kPort), false).error, 0);
}

TEST_F(AnIdentifier, OfIpv6MayLeaveIpv4ToOthers) {
  const IdHandle id = create(me_);
  ASSERT_EQ(one_.set_family_only(me_.owner, id, true).error, 0);
  ASSERT_EQ(one_.bind(me_.owner, id, Address::wildcard(Family::ipv6, kPort), false).error, 0);
  ASSERT_EQ(one_.listen(now_, me_.owner, id, 1).error, 0);
  EXPECT_EQ(one_.set_family_only(me_.owner, id, false).error, EINVAL) << "it listens";
  listening(other_, Address::wildcard(Family::ipv4, kPort));
  ASSERT_EQ(connect(me_, resolved(me_, ipv4("127.0.0.1", kPort))).error, 0);
  EXPECT_EQ(take(other_), Names{"CONNECT_REQUEST"});
}

TEST_F(AnIdentifier, HasAnAckTimeoutInItsQueuePair) {
  const IdHandle datagram = create(me_, PortSpace::udp, QpType::ud);
  EXPECT_EQ(one_.set_ack_timeout(me_.owner, datagram, 14).error, EINVAL);
  const IdHandle id = resolved(me_, ipv4("127.0.0.1", kPort));
  EXPECT_EQ(one_.set_ack_timeout(me_.owner, id, 32).error, EINVAL);
  ASSERT_EQ(one_.set_ack_timeout(me_.owner, id, 0).error, 0);
  listening(me_, ipv4("127.0.0.1", kPort));
  ASSERT_EQ(connect(me_, id).error, 0);
  EXPECT_EQ(view(me_, id).qp->timeout, 0) << "for ever";
}

// --- events and channels --------------------------------------------------------------------------------------------

TEST_F(AnIdentifier, IsDestroyedWithItsEvents) {
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  take_one(me_);
  ASSERT_EQ(one_.resolve_route(me_.owner, id).error, 0);
  EXPECT_EQ(one_.events_taken(id), 1u);
  destroy(me_, id);
  EXPECT_FALSE(one_.has_event(me_.channel));
  EXPECT_EQ(one_.population(), Manager::Population{});
}

TEST_F(AnIdentifier, HasANameThatNobodyElseHas) {
  const IdHandle id = create(me_);
  const auto error = [&](IdHandle handle) {
    return one_.create(other_.owner, handle, other_.channel, PortSpace::tcp, QpType::rc, 0).error;
  };
  EXPECT_EQ(error(id), EINVAL) << "somebody's";
  EXPECT_EQ(error({}), EINVAL);
  EXPECT_EQ(error({kManagersHandles | 77}), EINVAL) << "a request's";
  EXPECT_EQ(error({id.value + 1}), 0);
}

TEST_F(AnIdentifier, HasItsEventsAgainInTheirOrderWhenTheyDidNotArrive) {
  const IdHandle id = create(me_), other = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  ASSERT_EQ(resolve(me_, other, ipv4("127.0.0.1", kPort)).error, 0);
  ASSERT_EQ(one_.resolve_route(me_.owner, id).error, 0);
  const std::vector<Event> taken{take_one(me_), take_one(me_)};
  ASSERT_TRUE(one_.poll_channel());
  one_.put_back(me_.owner, me_.channel, taken);
  EXPECT_EQ(one_.events_taken(id), 0u);
  EXPECT_EQ(take_one(me_).id, id);
  EXPECT_EQ(take_one(me_).id, other);
  EXPECT_EQ(name(take_one(me_)), "ROUTE_RESOLVED");
  EXPECT_EQ(one_.events_taken(id), 2u);
  one_.put_back(me_.owner, me_.channel, taken);
  EXPECT_EQ(one_.poll_channel(), me_.channel) << "it was empty";
}

TEST_F(AnIdentifier, NamesItsChannelWhenThereIsNews) {
  EXPECT_FALSE(one_.poll_channel());
  const IdHandle id = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  ASSERT_EQ(one_.resolve_route(me_.owner, id).error, 0);
  EXPECT_EQ(one_.poll_channel(), me_.channel);
  EXPECT_FALSE(one_.poll_channel()) << "once, until it is empty";
  take(me_);
  ASSERT_EQ(resolve(me_, create(me_), ipv4("127.0.0.1", kPort)).error, 0);
  EXPECT_EQ(one_.poll_channel(), me_.channel);
}

TEST_F(AnIdentifier, MovesToAnotherChannelWithItsEvents) {
  const IdHandle id = create(me_), staying = create(me_);
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  take_one(me_);
  ASSERT_EQ(resolve(me_, staying, ipv4("127.0.0.1", kPort)).error, 0);
  ASSERT_EQ(one_.resolve_route(me_.owner, id).error, 0);
  const Program moved{&one_, me_.owner, {77}};
  ASSERT_EQ(one_.migrate(me_.owner, id, moved.channel).error, 0);
  EXPECT_EQ(take(me_), Names{"ADDR_RESOLVED"});
  EXPECT_EQ(take(moved), Names{"ROUTE_RESOLVED"});
  ASSERT_EQ(connect(moved, id).error, 0);
  step_time();
  EXPECT_EQ(take(moved), Names{"REJECTED 8"});
  EXPECT_EQ(one_.events_taken(id), 3u);
}

TEST_F(AnIdentifier, ThatListensTakesItsRequestsAlong) {
  const IdHandle listener = listening(me_, ipv4("127.0.0.1", kPort));
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort))).error, 0);
  const Program moved{&one_, me_.owner, {77}};
  ASSERT_EQ(one_.migrate(me_.owner, listener, moved.channel).error, 0);
  EXPECT_EQ(take(me_), Names{});
  const Event request = take_one(moved);
  EXPECT_EQ(view(me_, request.id).channel, moved.channel);
  ASSERT_EQ(one_.set_context(me_.owner, request.id, 5).error, 0);
  ASSERT_EQ(accept(me_, request.id).error, 0);
}

TEST_F(AnIdentifier, ThatListensEndsWithTheRequestsThatWereNotTaken) {
  const IdHandle listener = listening(me_, ipv4("127.0.0.1", kPort));
  const IdHandle taken = resolved(other_, ipv4("127.0.0.1", kPort)),
                 waiting = resolved(other_, ipv4("127.0.0.1", kPort));
  ASSERT_EQ(connect(other_, taken, offered(1)).error, 0);
  const Event request = take_one(me_);
  ASSERT_EQ(connect(other_, waiting, offered(2)).error, 0);
  destroy(me_, listener);
  const Event rejected = take_one(other_);
  EXPECT_EQ(name(rejected), "REJECTED 28");
  EXPECT_EQ(rejected.id, waiting);
  EXPECT_EQ(one_.take_request(me_.owner, request.id).error, EINVAL) << "again";
  ASSERT_EQ(accept(me_, request.id).error, 0) << "the other lives on";
  EXPECT_EQ(take(other_), Names{"CONNECT_RESPONSE"});
}

TEST_F(AnIdentifier, ThatListensEndsWithTheRequestsThatDidNotArrive) {
  const IdHandle listener = listening(me_, ipv4("127.0.0.1", kPort), 1);
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort))).error, 0);
  const Event request = *one_.take_event(me_.channel);
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort)), offered(2)).error, 0);
  EXPECT_EQ(last_reason_, Reason::cm_backlog) << "it still waits";
  EXPECT_EQ(one_.take_request(other_.owner, request.id).error, EINVAL) << "not theirs";
  one_.put_back(me_.owner, me_.channel, {&request, 1});
  destroy(me_, listener);
  EXPECT_EQ(one_.take_request(me_.owner, request.id).error, ENOENT);
  EXPECT_EQ(take(other_), Names{"REJECTED 28"});
}

TEST_F(AnIdentifier, ThatListensLeavesTheRequestThatTheProgramIsAboutToHaveHeardOf) {
  const IdHandle listener = listening(me_, ipv4("127.0.0.1", kPort));
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort))).error, 0);
  const Event request = *one_.take_event(me_.channel);
  destroy(me_, listener);
  EXPECT_EQ(one_.take_request(me_.owner, request.id).error, EINVAL) << "there is no backlog any more";
  ASSERT_EQ(accept(me_, request.id).error, 0);
  EXPECT_EQ(take(other_), Names{"CONNECT_RESPONSE"});
}

TEST_F(AnIdentifier, ThatIsARequestAndEndsUntakenMakesRoomInTheBacklog) {
  listening(me_, ipv4("127.0.0.1", kPort), 1);
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort))).error, 0);
  destroy(me_, one_.take_event(me_.channel)->id);
  EXPECT_EQ(take(other_), Names{"REJECTED 28"});
  ASSERT_EQ(connect(other_, resolved(other_, ipv4("127.0.0.1", kPort)), offered(2)).error, 0);
  EXPECT_EQ(take(me_), Names{"CONNECT_REQUEST"});
}

TEST_F(AnIdentifier, EndsWithItsChannel) {
  const IdHandle id = create(me_);
  const IdHandle elsewhere = create_on(one_, me_.owner, {77});
  one_.on_channel_closed(now_, me_.channel);
  EXPECT_EQ(one_.query(me_.owner, id).error(), ENOENT);
  EXPECT_TRUE(one_.query(me_.owner, elsewhere).ok());
}

TEST_F(AnIdentifier, IsToldOfItsDevice) {
  const IdHandle bound = create(me_), wildcard = create(me_);
  ASSERT_EQ(one_.bind(me_.owner, bound, ipv4("192.0.2.1"), false).error, 0);
  ASSERT_EQ(one_.bind(me_.owner, wildcard, Address::wildcard(Family::ipv4), false).error, 0);
  one_.on_address_change(kLo);
  EXPECT_EQ(take(me_), Names{});
  one_.on_address_change(kEth);
  EXPECT_EQ(take(me_), Names{"ADDR_CHANGE"});
  one_.remove_device();
  EXPECT_EQ(take(me_), Names{"DEVICE_REMOVAL"});
  EXPECT_EQ(view(me_, bound).state, IdState::device_removed);
  EXPECT_EQ(one_.listen(now_, me_.owner, bound, 1).error, EINVAL);
  EXPECT_EQ(one_.bind(me_.owner, create(me_), ipv4("192.0.2.1"), false).error, EADDRNOTAVAIL);
  EXPECT_EQ(resolve(me_, wildcard, ipv4("192.0.2.1", kPort)).error, 0);
  EXPECT_EQ(take(me_), Names{"ADDR_ERROR -19"});
  destroy(me_, bound);
}

TEST_F(AnIdentifier, IsToldNothingMoreAfterItsDeviceIsGone) {
  const IdHandle listener = listening(far_, ipv4("192.0.2.2", kPort));
  const IdHandle id = resolved(me_, ipv4("192.0.2.2", kPort));
  ASSERT_EQ(connect(me_, id).error, 0);
  const IdHandle passive = take_one(far_).id;
  ASSERT_EQ(accept(far_, passive).error, 0);
  ASSERT_EQ(establish(me_, id).error, 0);
  one_.remove_device();
  EXPECT_EQ(take(me_), (Names{"CONNECT_RESPONSE", "DEVICE_REMOVAL"}));
  ASSERT_EQ(disconnect(far_, passive).error, 0);
  EXPECT_EQ(take(me_), Names{});
  EXPECT_EQ(disconnect(me_, id).error, EINVAL);
  destroy(me_, id);
  destroy(far_, listener);
  EXPECT_EQ(take(far_), (Names{"ESTABLISHED", "DISCONNECTED"}));
}

// --- datagrams ------------------------------------------------------------------------------------------------------

class Datagrams : public AnIdentifier {
 protected:
  void ask() {
    listener_ = listening(far_, ipv4("192.0.2.2", kPort), 0, PortSpace::udp, QpType::ud);
    asking_ = resolved(me_, ipv4("192.0.2.2", kPort), PortSpace::udp, QpType::ud);
    Offer offer;
    offer.private_data = bytes(180);
    ASSERT_EQ(connect(me_, asking_, offer).error, 0);
    request_ = take_one(far_);
    ASSERT_EQ(name(request_), "CONNECT_REQUEST");
  }
  IdHandle listener_, asking_;
  Event request_;
};

TEST_F(Datagrams, LearnWhereToBySidr) {
  ask();
  EXPECT_EQ(request_.private_data, bytes(180));
  EXPECT_EQ(request_.listener, listener_);
  EXPECT_EQ(view(far_, request_.id).qp_type, QpType::ud);
  EXPECT_EQ(view(far_, request_.id).destination.ip, ipv4("192.0.2.1").ip);
  Offer offer = offered(0x222);
  offer.private_data = bytes(136);
  ASSERT_EQ(accept(far_, request_.id, offer).error, 0);
  const Event established = take_one(me_);
  EXPECT_EQ(name(established), "ESTABLISHED");
  EXPECT_EQ(established.datagram.qpn, Qpn{0x222});
  EXPECT_EQ(established.datagram.q_key, 0x01234567u);
  EXPECT_EQ(established.datagram.path.destination, ipv4("192.0.2.2").ip);
  EXPECT_EQ(established.private_data, bytes(136));
  EXPECT_EQ(sent(), (Names{"SIDR_REQ", "SIDR_REP"}));
  EXPECT_EQ(take(far_), Names{});
  EXPECT_EQ(accept(far_, request_.id, offer).error, EINVAL) << "once";
  EXPECT_EQ(disconnect(me_, asking_).error, 0) << "nothing to end";
  EXPECT_EQ(establish(me_, asking_).error, EINVAL);
  EXPECT_EQ(one_.notify_established(now_, me_.owner, asking_).error, EINVAL);
  destroy(me_, asking_);
  destroy(far_, request_.id);
  destroy(far_, listener_);
  EXPECT_EQ(one_.population(), Manager::Population{});
  EXPECT_EQ(two_.population(), Manager::Population{});
  EXPECT_FALSE(step_time());
}

TEST_F(Datagrams, AreRefusedByTheProgramOrWhereNobodyListens) {
  ask();
  ASSERT_EQ(reject(far_, request_.id, bytes(136)).error, 0);
  const Event refused = take_one(me_);
  EXPECT_EQ(name(refused), "UNREACHABLE 2") << "the status of the SIDR_REP";
  EXPECT_EQ(refused.private_data, bytes(136));
  destroy(far_, request_.id);
  destroy(far_, listener_);
  const IdHandle again = resolved(me_, ipv4("192.0.2.2", kPort), PortSpace::udp, QpType::ud);
  ASSERT_EQ(connect(me_, again).error, 0);
  step_time();
  EXPECT_EQ(take(me_), Names{"UNREACHABLE 1"});
  listening(other_, ipv4("192.0.2.1", kPort), 0, PortSpace::udp, QpType::ud);
  const IdHandle elsewhere = resolved(me_, ipv4("192.0.2.11", kPort), PortSpace::udp, QpType::ud);
  ASSERT_EQ(connect(me_, elsewhere).error, 0);
  EXPECT_EQ(take(me_), Names{"UNREACHABLE 2"});
}

TEST_F(Datagrams, AreAnsweredAgainWhenTheAnswerWasLost) {
  ask();
  int lost = 0;
  is_lost_ = [&](const wire::CmMessage& message) { return is<wire::SidrRep>(message) && ++lost <= 2; };
  ASSERT_EQ(accept(far_, request_.id).error, 0);
  while (!one_.has_event(me_.channel)) ASSERT_TRUE(step_time());
  EXPECT_EQ(take(me_), Names{"ESTABLISHED"});
  EXPECT_EQ(take(far_), Names{}) << "one request, though it came three times";
}

TEST_F(Datagrams, AreAskedForAnewWhenTheOneWhoAnsweredIsGone) {
  ask();
  is_lost_ = is<wire::SidrRep>;
  ASSERT_EQ(accept(far_, request_.id).error, 0);
  destroy(far_, request_.id);
  step_time();
  const Event again = take_one(far_);
  EXPECT_EQ(name(again), "CONNECT_REQUEST");
  EXPECT_NE(again.id, request_.id);
}

TEST_F(Datagrams, AreUnreachableWhenNobodyAnswers) {
  ask();
  Names events;
  while (events.empty() && step_time()) events = take(me_);
  EXPECT_EQ(events, Names{"UNREACHABLE -110"});
  EXPECT_EQ(sent(), Names(16, "SIDR_REQ"));
}

TEST_F(Datagrams, AreRefusedWhenTheServerDies) {
  ask();
  two_.on_owner_death(now_, far_.owner);
  settle();
  EXPECT_EQ(take(me_), Names{"UNREACHABLE 2"});
}

TEST_F(Datagrams, BeyondTheBacklogComeAgain) {
  listening(far_, ipv4("192.0.2.2", kPort), 1, PortSpace::udp, QpType::ud);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(connect(me_, resolved(me_, ipv4("192.0.2.2", kPort), PortSpace::udp, QpType::ud)).error, 0);
  EXPECT_EQ(last_reason_, Reason::cm_backlog);
  take_one(far_);
  step_time();
  EXPECT_EQ(take(far_), Names{"CONNECT_REQUEST"});
}

// --- multicast ------------------------------------------------------------------------------------------------------

TEST_F(Datagrams, GoToGroups) {
  const IdHandle id = create(me_, PortSpace::udp, QpType::ud);
  ASSERT_EQ(one_.bind(me_.owner, id, ipv4("192.0.2.1"), false).error, 0);
  const MembershipHandle first = one_.join(me_.owner, id, ipv4("224.0.0.9"), 0x77).value();
  const Event joined = take_one(me_);
  EXPECT_EQ(name(joined), "MULTICAST_JOIN");
  EXPECT_EQ(joined.id, id);
  EXPECT_EQ(joined.context, 0x77u);
  EXPECT_EQ(joined.membership, first);
  EXPECT_EQ(joined.datagram.path.destination, ipv4("224.0.0.9").ip);
  EXPECT_EQ(joined.datagram.path.source, ipv4("192.0.2.1").ip);
  EXPECT_EQ(joined.datagram.path.mtu, 3);
  EXPECT_EQ(joined.datagram.qpn, Qpn{0xffffff});
  EXPECT_EQ(joined.datagram.q_key, 0x01234567u);
  const MembershipHandle second = one_.join(me_.owner, id, ipv4("224.0.0.9"), 0x78).value();
  EXPECT_EQ(one_.leave(other_.owner, second).error, EINVAL);
  EXPECT_EQ(one_.events_taken(second), 0u);
  EXPECT_EQ(one_.leave(me_.owner, second).error, 0);
  EXPECT_EQ(take(me_), Names{}) << "left before it was told";
  EXPECT_EQ(one_.leave(me_.owner, second).error, ENOENT);
  EXPECT_EQ(one_.events_taken(first), 1u);
  EXPECT_EQ(one_.leave(me_.owner, first).error, 0);
  ASSERT_TRUE(one_.join(me_.owner, id, ipv6("ff0e::9"), 0x79).ok());
  destroy(me_, id);
  EXPECT_EQ(one_.population(), Manager::Population{});
}

TEST_F(Datagrams, GoToNoGroupWithoutADeviceOrByAConnection) {
  const IdHandle id = create(me_, PortSpace::udp, QpType::ud);
  EXPECT_EQ(one_.join(me_.owner, id, ipv4("224.0.0.9"), 0).error(), EINVAL);
  ASSERT_EQ(one_.bind(me_.owner, id, Address::wildcard(Family::ipv4), false).error, 0);
  EXPECT_EQ(one_.join(me_.owner, id, ipv4("224.0.0.9"), 0).error(), EINVAL) << "by which interface?";
  ASSERT_EQ(resolve(me_, id, ipv4("127.0.0.1", kPort)).error, 0);
  EXPECT_EQ(one_.join(me_.owner, id, ipv4("192.0.2.9"), 0).error(), EINVAL) << "no group";
  EXPECT_TRUE(one_.join(me_.owner, id, ipv4("224.0.0.9"), 0).ok());
  const IdHandle connection = create(me_);
  ASSERT_EQ(one_.bind(me_.owner, connection, ipv4("192.0.2.1"), false).error, 0);
  EXPECT_EQ(one_.join(me_.owner, connection, ipv4("224.0.0.9"), 0).error(), EINVAL);
}

// --- what else comes from the network -------------------------------------------------------------------------------

class FromTheNetwork : public AnIdentifier {
 protected:
  Reason hear(const wire::CmBody& body) {
    return one_.on_mad(now_, {ipv4("192.0.2.1").ip, ipv4("192.0.2.2").ip}, wire::emit_cm({1, body}));
  }
  wire::CmBody answer() {
    const auto mad = one_.poll_mad();
    EXPECT_TRUE(mad.has_value());
    EXPECT_EQ(mad->address, (MadAddress{ipv4("192.0.2.1").ip, ipv4("192.0.2.2").ip}));
    return std::get<wire::CmMessage>(wire::parse_cm(mad->bytes)).body;
  }
  static constexpr wire::CommunicationId kOurs{0x1234}, kTheirs{0x5678};
};

TEST_F(FromTheNetwork, NonsenseHasAReason) {
  EXPECT_EQ(one_.on_mad(now_, {}, {}), Reason::mad_length);
  EXPECT_EQ(hear(wire::Rep{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Rtu{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Mra{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Rej{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Rej{kTheirs, kOurs, wire::Answered::other, 8, wire::RejectReason::timeout}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Drep{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Lap{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::Apr{kTheirs, kOurs}), Reason::cm_unknown);
  EXPECT_EQ(hear(wire::SidrRep{kTheirs}), Reason::cm_unknown);
  EXPECT_FALSE(one_.poll_mad());
}

TEST_F(FromTheNetwork, TheEndOfAForgottenConnectionIsConfirmed) {
  EXPECT_EQ(hear(wire::Dreq{kTheirs, kOurs, Qpn{1}}), Reason::cm_unknown);
  EXPECT_EQ(std::get<wire::Drep>(answer()), (wire::Drep{kOurs, kTheirs}));
}

TEST_F(FromTheNetwork, ARequestMustSayWhoItIsFrom) {
  listening(me_, ipv4("192.0.2.1", kPort));
  wire::Req req{.local_communication_id = kTheirs, .service_id = {0x1060000 + kPort}};
  req.private_data[0] = 1;
  EXPECT_EQ(hear(req), Reason::rdma_ip_cm_header);
  EXPECT_EQ(std::get<wire::Rej>(answer()).reason, wire::RejectReason::consumer_reject);
  // From somebody else than it says.
  const auto with_addresses = [&](const Address& from, const Address& to) {
    wire::emit_rdma_ip_cm_header({4, 5, from.ip, to.ip},
                                 std::span(req.private_data).first<wire::kRdmaIpCmHeaderSize>());
    return hear(req);
  };
  EXPECT_EQ(with_addresses(ipv4("192.0.2.3"), ipv4("192.0.2.1")), Reason::cm_address);
  EXPECT_EQ(with_addresses(ipv4("192.0.2.2"), ipv4("192.0.2.11")), Reason::cm_address);
  EXPECT_EQ(take(me_), Names{});
  EXPECT_EQ(with_addresses(ipv4("192.0.2.2"), ipv4("192.0.2.1")), Reason::none);
  EXPECT_EQ(take(me_), Names{"CONNECT_REQUEST"});
  wire::SidrReq sidr{.request_id = kTheirs, .service_id = {0x1110000 + kPort}};
  sidr.private_data[0] = 1;
  while (one_.poll_mad()) {
  }
  EXPECT_EQ(hear(sidr), Reason::rdma_ip_cm_header);
  EXPECT_EQ(std::get<wire::SidrRep>(answer()).status, wire::SidrStatus::rejected);
}

TEST_F(FromTheNetwork, OnlyThePeerSpeaksForAConnection) {
  listening(far_, ipv4("192.0.2.2", kPort));
  const IdHandle id = resolved(me_, ipv4("192.0.2.2", kPort));
  wire::CommunicationId communication;
  is_lost_ = [&](const wire::CmMessage& message) {
    communication = std::get<wire::Req>(message.body).local_communication_id;
    return true;
  };
  ASSERT_EQ(connect(me_, id).error, 0);
  const wire::Mad rep = wire::emit_cm({1, wire::Rep{kTheirs, communication}});
  const wire::Mad rej =
      wire::emit_cm({1, wire::Rej{{}, communication, wire::Answered::req, 0, wire::RejectReason::consumer_reject}});
  const MadAddress stranger{ipv4("192.0.2.1").ip, ipv4("192.0.2.3").ip};
  EXPECT_EQ(one_.on_mad(now_, stranger, rep), Reason::cm_address);
  EXPECT_EQ(one_.on_mad(now_, stranger, rej), Reason::cm_address);
  EXPECT_EQ(take(me_), Names{});
  EXPECT_EQ(one_.on_mad(now_, {ipv4("192.0.2.1").ip, ipv4("192.0.2.2").ip}, rep), Reason::none);
  EXPECT_EQ(take(me_), Names{"CONNECT_RESPONSE"});
}

TEST_F(FromTheNetwork, NobodyElseEndsAConnectionByTheNumberOfItsQueuePair) {
  listening(me_, ipv4("192.0.2.1", kPort));
  wire::Req req{
      .local_communication_id = kTheirs, .service_id = {0x1060000 + kPort}, .local_ca_guid = 7, .local_qpn = Qpn{5}};
  const auto ask = [&](const char* who, uint32_t communication) {
    const Gid from = ipv4(who).ip;
    req.local_communication_id = {communication};
    wire::emit_rdma_ip_cm_header({4, 5, from, ipv4("192.0.2.1").ip},
                                 std::span(req.private_data).first<wire::kRdmaIpCmHeaderSize>());
    return one_.on_mad(now_, {ipv4("192.0.2.1").ip, from}, wire::emit_cm({1, req}));
  };
  EXPECT_EQ(ask("192.0.2.2", 1), Reason::none);
  EXPECT_EQ(ask("192.0.2.3", 2), Reason::none);
  EXPECT_EQ(ask("192.0.2.3", 3), Reason::cm_stale);
  EXPECT_EQ(take(me_).size(), 2u);
}

TEST_F(FromTheNetwork, AnAlternatePathIsRefused) {
  listening(far_, ipv4("192.0.2.2", kPort));
  const IdHandle id = resolved(me_, ipv4("192.0.2.2", kPort));
  wire::Req req;
  is_lost_ = [&](const wire::CmMessage& message) {
    req = std::get<wire::Req>(message.body);
    return true;
  };
  ASSERT_EQ(connect(me_, id).error, 0);
  ASSERT_EQ(hear(wire::Rep{kTheirs, req.local_communication_id}), Reason::none);
  ASSERT_EQ(one_.establish(now_, me_.owner, id).error, 0);
  while (one_.poll_mad()) {
  }
  EXPECT_EQ(hear(wire::Lap{kTheirs, req.local_communication_id}), Reason::none);
  EXPECT_EQ(std::get<wire::Apr>(answer()).ap_status, wire::ApStatus::not_supported);
}

}  // namespace
}  // namespace verbatim::cm
