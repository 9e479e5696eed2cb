#include "host/host_interfaces.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <memory>
#include <set>
#include <string>

#include "support/network_namespace.h"

namespace verbatim::host {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using NamedAddresses = std::set<std::pair<std::string, std::string>>;

NamedAddresses shown(const std::vector<HostInterface>& interfaces) {
  NamedAddresses all;
  for (const HostInterface& interface : interfaces) {
    for (const Gid& gid : interface.addresses) all.insert({interface.name, gid.text()});
  }
  return all;
}

// The same, as the C library sees it.
NamedAddresses shown_by_getifaddrs() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  NamedAddresses all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN];
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      all.insert({entry->ifa_name, std::string("::ffff:") + inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)});
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      all.insert({entry->ifa_name, inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text)});
    }
  }
  return all;
}

const HostInterface* named(const std::vector<HostInterface>& interfaces, const std::string& name) {
  const auto found = std::ranges::find(interfaces, name, &HostInterface::name);
  return found == interfaces.end() ? nullptr : &*found;
}

TEST(HostInterfaces, AreThoseTheCLibraryFinds) {
  const auto interfaces = host_interfaces();
  ASSERT_TRUE(interfaces.ok()) << strerror(interfaces.error());
  EXPECT_EQ(shown(interfaces.value()), shown_by_getifaddrs());
  for (const HostInterface& interface : interfaces.value()) {
    EXPECT_EQ(if_nametoindex(interface.name.c_str()), interface.ifindex);
    EXPECT_NE(interface.flags & IFF_UP, 0u);
    EXPECT_GT(interface.mtu, 0u);
  }
}

TEST(HostInterfaces, AtMostOneHasTheDefaultRoute) {
  const auto interfaces = host_interfaces();
  ASSERT_TRUE(interfaces.ok());
  EXPECT_LE(std::ranges::count_if(interfaces.value(), &HostInterface::has_default_route), 1);
}

class HostInterfacesInNamespace : public testing_support::InNamespace {
 protected:
  static std::vector<HostInterface> interfaces() {
    auto result = host_interfaces();
    EXPECT_TRUE(result.ok());
    return result.ok() ? result.take() : std::vector<HostInterface>();
  }
};

TEST_F(HostInterfacesInNamespace, WithNothingUpAreNone) {
  in_namespace({}, [] { EXPECT_THAT(interfaces(), IsEmpty()); });
}

TEST_F(HostInterfacesInNamespace, LoopbackHasBothItsAddressesAndItsKind) {
  in_namespace({"link set dev lo up"}, [] {
    const auto all = interfaces();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, InterfaceKind::loopback);
    EXPECT_EQ(all[0].mtu, 65536u);
    EXPECT_EQ(shown(all), (NamedAddresses{{"lo", "::ffff:127.0.0.1"}, {"lo", "::1"}}));
    EXPECT_FALSE(all[0].has_default_route);
  });
}

TEST_F(HostInterfacesInNamespace, AnInterfaceThatIsDownIsLeftOut) {
  in_namespace({"link add name a type veth peer name b", "address add 192.0.2.1/24 dev a", "link set dev b up"}, [] {
    EXPECT_EQ(named(interfaces(), "a"), nullptr);
    EXPECT_NE(named(interfaces(), "b"), nullptr);
  });
}

TEST_F(HostInterfacesInNamespace, HaveTheirMtuMacAndAddressesInOrder) {
  in_namespace({"link add name a type veth peer name b", "link set dev a mtu 9000 address 02:00:00:00:00:0a up",
                "link set dev b up", "address add 192.0.2.1/24 dev a", "address add 192.0.2.2/24 dev a",
                "address add 2001:db8::1/64 dev a nodad"},
               [] {
                 const auto all = interfaces();
                 const HostInterface* a = named(all, "a");
                 ASSERT_NE(a, nullptr);
                 EXPECT_EQ(a->mtu, 9000u);
                 EXPECT_THAT(a->mac, ElementsAre(2, 0, 0, 0, 0, 0x0a));
                 EXPECT_EQ(a->kind, InterfaceKind::ordinary);
                 ASSERT_GE(a->addresses.size(), 3u);
                 EXPECT_EQ(a->addresses[0].text(), "::ffff:192.0.2.1");
                 EXPECT_EQ(a->addresses[1].text(), "::ffff:192.0.2.2");
                 EXPECT_EQ(a->addresses[2].text(), "2001:db8::1");
               });
}

TEST_F(HostInterfacesInNamespace, AnAddressNotYetFoundUniqueIsLeftOut) {
  // Without its peer up the link has no carrier, and the address stays tentative.
  in_namespace({"link add name a type veth peer name b", "link set dev a up", "address add 2001:db8::1/64 dev a",
                "address add 2001:db8::2/64 dev a nodad"},
               [] {
                 const NamedAddresses all = shown(interfaces());
                 EXPECT_FALSE(all.contains({"a", "2001:db8::1"}));
                 EXPECT_TRUE(all.contains({"a", "2001:db8::2"}));
               });
}

TEST_F(HostInterfacesInNamespace, OnAPointToPointLinkTheAddressIsOurEnd) {
  in_namespace({"link add name a type veth peer name b", "link set dev a up", "link set dev b up",
                "address add 192.0.2.1 peer 192.0.2.9 dev a"},
               [] {
                 EXPECT_TRUE(shown(interfaces()).contains({"a", "::ffff:192.0.2.1"}));
               });
}

TEST_F(HostInterfacesInNamespace, ABridgeIsABridge) {
  in_namespace({"link add name br type bridge", "link set dev br up"}, [] {
    const auto all = interfaces();
    ASSERT_NE(named(all, "br"), nullptr);
    EXPECT_EQ(named(all, "br")->kind, InterfaceKind::bridge);
  });
}

TEST_F(HostInterfacesInNamespace, ATunIsATunnel) {
  in_namespace({"tuntap add dev tun0 mode tun", "link set dev tun0 up"}, [] {
    const auto all = interfaces();
    ASSERT_NE(named(all, "tun0"), nullptr);
    EXPECT_EQ(named(all, "tun0")->kind, InterfaceKind::tunnel);
  });
}

TEST_F(HostInterfacesInNamespace, TheLowestMetricHasTheDefaultRouteAndIpv4GoesBeforeIpv6) {
  in_namespace({"link add name a type veth peer name b", "link add name c type veth peer name d", "link set dev a up",
                "link set dev b up", "link set dev c up", "link set dev d up", "address add 192.0.2.1/24 dev a",
                "address add 198.51.100.1/24 dev c", "address add 2001:db8::1/64 dev a nodad",
                "-6 route add default via 2001:db8::9 dev a metric 1", "route add default via 192.0.2.9 metric 200",
                "route add default via 198.51.100.9 metric 100"},
               [] {
                 const auto all = interfaces();
                 EXPECT_FALSE(named(all, "a")->has_default_route);
                 EXPECT_TRUE(named(all, "c")->has_default_route);
               });
}

TEST_F(HostInterfacesInNamespace, WithoutAnIpv4DefaultRouteTheIpv6OneCounts) {
  in_namespace({"link add name a type veth peer name b", "link set dev a up", "link set dev b up",
                "address add 192.0.2.1/24 dev b", "address add 2001:db8::1/64 dev a nodad",
                "-6 route add default via 2001:db8::9 dev a"},
               [] {
                 const auto all = interfaces();
                 EXPECT_TRUE(named(all, "a")->has_default_route);
                 EXPECT_FALSE(named(all, "b")->has_default_route);
               });
}

TEST_F(HostInterfacesInNamespace, ADefaultRouteOverTwoHopsIsThatOfTheFirst) {
  in_namespace({"link add name a type veth peer name b", "link set dev a up", "link set dev b up",
                "address add 192.0.2.1/24 dev a", "address add 198.51.100.1/24 dev b",
                "route add default nexthop via 198.51.100.9 nexthop via 192.0.2.9"},
               [] { EXPECT_TRUE(named(interfaces(), "b")->has_default_route); });
}

TEST_F(HostInterfacesInNamespace, ADefaultRouteOfAnotherTableDoesNotCount) {
  in_namespace({"link add name a type veth peer name b", "link set dev a up", "link set dev b up",
                "address add 192.0.2.1/24 dev a", "route add default via 192.0.2.9 table 100",
                "route add blackhole default metric 5"},
               [] { EXPECT_FALSE(named(interfaces(), "a")->has_default_route); });
}

}  // namespace
}  // namespace verbatim::host
