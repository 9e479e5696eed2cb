#include "cm/port_space.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace verbatim::cm {
namespace {

Address address(Family family, const char* text, uint16_t port = 0) {
  Address result{.family = family, .port = port};
  EXPECT_EQ(inet_pton(AF_INET6, text, result.ip.bytes.data()), 1) << text;
  return result;
}

Address ipv4(const char* text, uint16_t port = 0) {
  return address(Family::ipv4, (std::string("::ffff:") + text).c_str(), port);
}
Address ipv6(const char* text, uint16_t port = 0) { return address(Family::ipv6, text, port); }

class Ports : public testing::Test {
 protected:
  Result<uint16_t> bind(IdHandle who, const Binding& binding) { return table_.bind(who, binding, false, 0); }
  // 0, or the errno.
  int bind_error(IdHandle who, const Binding& binding) {
    const Result<uint16_t> port = bind(who, binding);
    return port.ok() ? 0 : port.error();
  }
  void listening(IdHandle who, const Binding& binding) {
    ASSERT_EQ(bind_error(who, binding), 0);
    ASSERT_TRUE(table_.listen(who).ok());
  }

  static constexpr IdHandle kOne{1}, kTwo{2}, kThree{3};
  PortTable table_{{.first_unprivileged = 1024, .first_ephemeral = 100, .last_ephemeral = 103}};
  const Binding any_ipv4_{.source = Address::wildcard(Family::ipv4, 7000), .family_only = true};
  const Binding any_ipv6_{.source = Address::wildcard(Family::ipv6, 7000)};
  const Binding only_ipv6_{.source = Address::wildcard(Family::ipv6, 7000), .family_only = true};
  const Binding specific_{.source = ipv4("192.0.2.1", 7000), .family_only = true};
  const Binding other_{.source = ipv4("192.0.2.2", 7000), .family_only = true};
};

TEST_F(Ports, GiveTheOneThatIsAskedFor) { EXPECT_EQ(bind(kOne, specific_).value(), 7000); }

TEST_F(Ports, BelowTheLimitTakeAPrivilege) {
  const Binding low{.source = ipv4("192.0.2.1", 1023)};
  EXPECT_EQ(bind_error(kOne, low), EACCES);
  EXPECT_TRUE(table_.bind(kOne, low, true, 0).ok());
  EXPECT_EQ(bind_error(kTwo, {.source = ipv4("192.0.2.1", 1024)}), 0);
}

TEST_F(Ports, OfTheSameAddressAreInUse) {
  ASSERT_EQ(bind_error(kOne, specific_), 0);
  EXPECT_EQ(bind_error(kTwo, specific_), EADDRINUSE);
  EXPECT_EQ(bind_error(kTwo, other_), 0);
}

TEST_F(Ports, OfTheWildcardAreNotAvailableWhereSomebodyIs) {
  ASSERT_EQ(bind_error(kOne, specific_), 0);
  EXPECT_EQ(bind_error(kTwo, any_ipv4_), EADDRNOTAVAIL);
  EXPECT_EQ(bind_error(kTwo, any_ipv6_), EADDRNOTAVAIL);
  table_.release(kOne);
  ASSERT_EQ(bind_error(kTwo, any_ipv6_), 0);
  EXPECT_EQ(bind_error(kOne, specific_), EADDRNOTAVAIL);
  EXPECT_EQ(bind_error(kOne, any_ipv6_), EADDRNOTAVAIL);
}

TEST_F(Ports, OfTheTwoFamiliesAreApartWhenEachIsOnlyItself) {
  ASSERT_EQ(bind_error(kOne, any_ipv4_), 0);
  EXPECT_EQ(bind_error(kTwo, only_ipv6_), 0);
  EXPECT_EQ(bind_error(kThree, any_ipv6_), EADDRNOTAVAIL);
}

TEST_F(Ports, OfAnotherSpaceAreOthers) {
  for (PortSpace space : {PortSpace::tcp, PortSpace::udp, PortSpace::ipoib, PortSpace::ib}) {
    Binding binding = specific_;
    binding.space = space;
    EXPECT_EQ(bind_error({static_cast<uint64_t>(space)}, binding), 0);
  }
}

TEST_F(Ports, AreSharedByThoseWhoReuseAddressesUntilOneListens) {
  Binding reusing = specific_;
  reusing.reuse_address = true;
  ASSERT_EQ(bind_error(kOne, reusing), 0);
  ASSERT_EQ(bind_error(kTwo, reusing), 0);
  EXPECT_EQ(bind_error(kThree, specific_), EADDRINUSE) << "it does not reuse";
  EXPECT_EQ(table_.listen(kOne).error, EADDRINUSE) << "another one is bound there";
  table_.release(kTwo);
  EXPECT_TRUE(table_.listen(kOne).ok());
  EXPECT_EQ(bind_error(kTwo, reusing), EADDRINUSE) << "one listens";
}

TEST_F(Ports, AreFreeAgainWhenTheyAreReleased) {
  ASSERT_EQ(bind_error(kOne, specific_), 0);
  table_.release(kOne);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(bind_error(kTwo, specific_), 0);
  table_.release(kOne);
  EXPECT_EQ(table_.size(), 1u) << "released twice";
}

TEST_F(Ports, ForWhoeverAsksForNoneBeginSomewhereInTheRange) {
  const Binding any{.source = ipv4("192.0.2.1")};
  EXPECT_EQ(table_.bind(kOne, any, false, 6).value(), 102);
  EXPECT_EQ(table_.bind(kTwo, any, false, 6).value(), 103) << "the next one";
  EXPECT_EQ(table_.bind(kThree, any, false, 6).value(), 100) << "round the end";
}

TEST_F(Ports, AreUsedUpAtLast) {
  const Binding any{.source = ipv4("192.0.2.1"), .destination = ipv4("192.0.2.9", 5)};
  std::set<uint16_t> given;
  for (uint64_t i = 1; i <= 4; ++i) given.insert(bind({i}, any).value());
  EXPECT_EQ(given, (std::set<uint16_t>{100, 101, 102, 103}));
  EXPECT_EQ(bind_error({5}, any), EADDRNOTAVAIL);
}

TEST_F(Ports, AreSharedByThoseWhoSpeakWithOthers) {
  Binding binding{.source = ipv4("192.0.2.1"), .destination = ipv4("192.0.2.9", 5)};
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(bind_error({i}, binding), 0);
  binding.destination = ipv4("192.0.2.9", 6);
  EXPECT_EQ(bind_error({5}, binding), 0);
  binding.destination = ipv4("192.0.2.8", 5);
  EXPECT_EQ(bind_error({6}, binding), 0);
  binding.source = ipv4("192.0.2.2");
  binding.destination = ipv4("192.0.2.9", 5);
  EXPECT_EQ(bind_error({7}, binding), 0);
}

TEST_F(Ports, AreNotGivenOutTwiceInARow) {
  const Binding any{.source = ipv4("192.0.2.1")};
  const uint16_t first = bind(kOne, any).value();
  table_.release(kOne);
  EXPECT_NE(bind(kOne, any).value(), first);
}

TEST_F(Ports, HearRequestsForTheirOwnAddressOnly) {
  listening(kOne, specific_);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), kOne);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.2", 7000)), std::nullopt);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7001)), std::nullopt);
  EXPECT_EQ(table_.listener(PortSpace::udp, ipv4("192.0.2.1", 7000)), std::nullopt);
  EXPECT_TRUE(table_.has_listener(PortSpace::tcp, 7000));
  EXPECT_FALSE(table_.has_listener(PortSpace::tcp, 7001));
}

TEST_F(Ports, HearNothingBeforeTheyListen) {
  ASSERT_EQ(bind_error(kOne, specific_), 0);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), std::nullopt);
  EXPECT_FALSE(table_.has_listener(PortSpace::tcp, 7000));
}

TEST_F(Ports, OfTheIpv6WildcardHearIpv4TooUnlessTheyAreOnlyIpv6) {
  listening(kOne, any_ipv6_);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), kOne);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv6("2001:db8::1", 7000)), kOne);
  table_.release(kOne);
  listening(kTwo, only_ipv6_);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), std::nullopt);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv6("2001:db8::1", 7000)), kTwo);
  listening(kOne, any_ipv4_);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), kOne);
}

TEST_F(Ports, OfASpecificAddressHearBeforeTheWildcard) {
  listening(kOne, only_ipv6_);
  listening(kTwo, specific_);
  table_.set_family_only(kOne, false);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.1", 7000)), kTwo);
  EXPECT_EQ(table_.listener(PortSpace::tcp, ipv4("192.0.2.2", 7000)), kOne);
}

TEST_F(Ports, OfLinkLocalAddressesAreOfTheirInterface) {
  Binding binding{.source = ipv6("fe80::1", 7000)};
  binding.source.scope_id = 2;
  ASSERT_EQ(bind_error(kOne, binding), 0);
  EXPECT_EQ(bind_error(kTwo, binding), EADDRINUSE);
  binding.source.scope_id = 3;
  EXPECT_EQ(bind_error(kTwo, binding), 0);
}

TEST(AnAddress, KnowsWhatItIs) {
  EXPECT_TRUE(Address::wildcard(Family::ipv4).is_wildcard());
  EXPECT_TRUE(Address::wildcard(Family::ipv6).is_wildcard());
  EXPECT_FALSE(ipv4("192.0.2.1").is_wildcard());
  EXPECT_FALSE(ipv6("::ffff:0.0.0.0").is_wildcard()) << "an IPv6 address of its own";
  EXPECT_EQ(Address::loopback(Family::ipv4, 5), ipv4("127.0.0.1", 5));
  EXPECT_EQ(Address::loopback(Family::ipv6, 5), ipv6("::1", 5));
  EXPECT_TRUE(ipv6("fe80::1").is_link_local());
  EXPECT_TRUE(ipv6("febf::1").is_link_local());
  EXPECT_FALSE(ipv6("fec0::1").is_link_local());
  EXPECT_FALSE(ipv4("169.254.0.1").is_link_local()) << "needs no interface";
}

}  // namespace
}  // namespace verbatim::cm
