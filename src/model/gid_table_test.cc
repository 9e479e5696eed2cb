#include "model/gid_table.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbatim::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kGuid = 0x0211'22ff'fe33'4455;

Gid gid(const std::string& text) {
  Gid value;
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), value.bytes.data()), 1) << text;
  return value;
}

GidInterface interface(uint32_t ifindex, std::vector<std::string> addresses) {
  GidInterface value{.ifindex = ifindex, .mtu = 1500};
  for (const std::string& address : addresses) value.gids.push_back(gid(address));
  return value;
}

GidInterface loopback() {
  GidInterface value = interface(1, {"::ffff:127.0.0.1", "::1"});
  value.role = InterfaceRole::loopback;
  value.mtu = 65536;
  return value;
}

// The table's addresses from index 0 up to the last that is not empty; "-" for an empty index.
std::vector<std::string> shown(const GidTable& table) {
  std::vector<std::string> texts;
  size_t length = 0;
  for (size_t i = 0; i < GidTable::kLength; ++i) {
    texts.push_back(table.at(i)->empty() ? "-" : table.at(i)->gid.text());
    if (!table.at(i)->empty()) length = i + 1;
  }
  texts.resize(length);
  return texts;
}

std::string numbered(uint32_t n) { return "2001:db8::" + std::to_string(n + 1); }

GidInterface many(uint32_t first, uint32_t count) {
  GidInterface value{.ifindex = 2, .mtu = 1500};
  for (uint32_t i = 0; i < count; ++i) {
    Gid one = gid("2001:db8::");
    one.bytes[12] = 1;
    one.bytes[14] = static_cast<uint8_t>((first + i) >> 8);
    one.bytes[15] = static_cast<uint8_t>(first + i);
    value.gids.push_back(one);
  }
  return value;
}

TEST(LinkLocalGid, InvertsTheUniversalLocalBitOfTheGuid) {
  EXPECT_EQ(link_local_gid(kGuid).text(), "fe80::11:22ff:fe33:4455");
  EXPECT_EQ(link_local_gid(kGuid ^ uint64_t{2} << 56).text(), "fe80::211:22ff:fe33:4455");
}

TEST(GidTable, WithoutInterfacesHoldsTheAddressDerivedFromTheGuid) {
  const GidTable table(kGuid);
  EXPECT_THAT(shown(table), ElementsAre("fe80::11:22ff:fe33:4455"));
  EXPECT_EQ(table.at(0)->ifindex, 0u);
  EXPECT_GE(table.at(0)->mtu, 4096u + 84);
  EXPECT_EQ(table.count(), 1u);
  EXPECT_TRUE(table.is_local(link_local_gid(kGuid)));
}

TEST(GidTable, InterfacesWithoutAddressesGiveTheDerivedAddressToo) {
  const std::vector<GidInterface> interfaces{interface(2, {}), interface(3, {"::"})};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)), ElementsAre("fe80::11:22ff:fe33:4455"));
}

TEST(GidTable, OneAddressOfAnyKindMakesTheDerivedOneUnnecessary) {
  const std::vector<GidInterface> interfaces{loopback()};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)), ElementsAre("::ffff:127.0.0.1", "::1"));
}

TEST(GidTable, DefaultRouteComesFirstThenTheIndexThenVirtualLinksThenLoopback) {
  GidInterface bridge = interface(2, {"::ffff:172.17.0.1"});
  bridge.role = InterfaceRole::virtual_link;
  GidInterface uplink = interface(7, {"::ffff:192.0.2.7"});
  uplink.has_default_route = true;
  const std::vector<GidInterface> interfaces{loopback(), bridge, interface(9, {"::ffff:192.0.2.9"}), uplink,
                                             interface(3, {"::ffff:192.0.2.3"})};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)),
              ElementsAre("::ffff:192.0.2.7", "::ffff:192.0.2.3", "::ffff:192.0.2.9", "::ffff:172.17.0.1",
                          "::ffff:127.0.0.1", "::1"));
}

TEST(GidTable, ABridgeThatHoldsTheDefaultRouteComesFirst) {
  GidInterface bridge = interface(9, {"::ffff:10.0.0.1"});
  bridge.role = InterfaceRole::virtual_link;
  bridge.has_default_route = true;
  const std::vector<GidInterface> interfaces{interface(2, {"::ffff:192.0.2.2"}), bridge};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)), ElementsAre("::ffff:10.0.0.1", "::ffff:192.0.2.2"));
}

TEST(GidTable, LoopbackIsLastEvenWithTheDefaultRoute) {
  GidInterface routed = loopback();
  routed.has_default_route = true;
  const std::vector<GidInterface> interfaces{routed, interface(2, {"fe80::2"})};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)), ElementsAre("fe80::2", "::ffff:127.0.0.1", "::1"));
}

TEST(GidTable, WithinAnInterfaceIpv4ComesBeforeGlobalIpv6BeforeLinkLocalAndElseTheGivenOrderStays) {
  const std::vector<GidInterface> interfaces{
      interface(2, {"fe80::2", "2001:db8::9", "::ffff:192.0.2.9", "2001:db8::1", "::ffff:192.0.2.1", "febf::1"})};
  EXPECT_THAT(shown(GidTable(kGuid, interfaces)),
              ElementsAre("::ffff:192.0.2.9", "::ffff:192.0.2.1", "2001:db8::9", "2001:db8::1", "fe80::2", "febf::1"));
}

TEST(GidTable, OrderDoesNotDependOnTheOrderInterfacesAreGiven) {
  std::vector<GidInterface> interfaces{interface(2, {"::ffff:192.0.2.2"}), interface(3, {"fe80::3"}), loopback()};
  const std::vector<std::string> expected = shown(GidTable(kGuid, interfaces));
  std::ranges::reverse(interfaces);
  EXPECT_EQ(shown(GidTable(kGuid, interfaces)), expected);
}

TEST(GidTable, SameAddressTwiceOnOneInterfaceIsOneEntryOnTwoInterfacesTwo) {
  const std::vector<GidInterface> interfaces{interface(2, {"fe80::1", "fe80::1"}), interface(3, {"fe80::1"})};
  const GidTable table(kGuid, interfaces);
  EXPECT_THAT(shown(table), ElementsAre("fe80::1", "fe80::1"));
  EXPECT_EQ(table.at(0)->ifindex, 2u);
  EXPECT_EQ(table.at(1)->ifindex, 3u);
  EXPECT_EQ(table.find(gid("fe80::1")), 0u);
}

TEST(GidTable, EntriesCarryIndexMtuAndSpeedOfTheirInterface) {
  GidInterface fast = interface(5, {"::ffff:192.0.2.5"});
  fast.mtu = 9000;
  fast.speed_mbps = 100000;
  fast.has_default_route = true;
  const std::vector<GidInterface> interfaces{loopback(), fast};
  const GidTable table(kGuid, interfaces);
  EXPECT_EQ(table.at(0)->ifindex, 5u);
  EXPECT_EQ(table.at(0)->mtu, 9000u);
  EXPECT_EQ(table.at(0)->speed_mbps, 100000u);
  EXPECT_EQ(table.at(1)->mtu, 65536u);
  EXPECT_EQ(&table.first(), table.at(0));
}

TEST(GidTable, FindsWhatItHoldsAndNothingElse) {
  const std::vector<GidInterface> interfaces{interface(2, {"::ffff:192.0.2.2", "fe80::2"}), loopback()};
  const GidTable table(kGuid, interfaces);
  EXPECT_EQ(table.find(gid("fe80::2")), 1u);
  EXPECT_EQ(table.find(gid("::1")), 3u);
  EXPECT_TRUE(table.is_local(gid("::ffff:127.0.0.1")));
  EXPECT_FALSE(table.is_local(gid("::ffff:192.0.2.3")));
  EXPECT_EQ(table.find(Gid{}), std::nullopt);
  EXPECT_FALSE(table.is_local(Gid{}));
}

TEST(GidTable, DerivedAddressIsLocalAlsoWhenItIsNotInTheTable) {
  const std::vector<GidInterface> interfaces{loopback()};
  const GidTable table(kGuid, interfaces);
  EXPECT_EQ(table.find(link_local_gid(kGuid)), std::nullopt);
  EXPECT_TRUE(table.is_local(link_local_gid(kGuid)));
}

TEST(GidTable, HasNoEntryAtOrBeyondItsLength) {
  const GidTable table(kGuid);
  EXPECT_NE(table.at(GidTable::kLength - 1), nullptr);
  EXPECT_EQ(table.at(GidTable::kLength), nullptr);
  EXPECT_EQ(table.at(SIZE_MAX), nullptr);
}

TEST(GidTableUpdate, TheSameInterfacesChangeNothing) {
  const std::vector<GidInterface> interfaces{interface(2, {"::ffff:192.0.2.2", "fe80::2"}), loopback()};
  GidTable table(kGuid, interfaces);
  const std::vector<std::string> before = shown(table);
  EXPECT_THAT(table.update(interfaces).indices, IsEmpty());
  EXPECT_EQ(shown(table), before);
}

TEST(GidTableUpdate, ARemovedAddressLeavesAZeroGidAndMovesNobody) {
  GidTable table(kGuid, std::vector{interface(2, {"::ffff:192.0.2.2", "fe80::2"}), loopback()});
  EXPECT_THAT(table.update(std::vector{interface(2, {"fe80::2"}), loopback()}).indices, ElementsAre(0u));
  EXPECT_THAT(shown(table), ElementsAre("-", "fe80::2", "::ffff:127.0.0.1", "::1"));
  EXPECT_EQ(table.first().gid, gid("fe80::2"));
  EXPECT_EQ(table.count(), 3u);
  EXPECT_FALSE(table.is_local(gid("::ffff:192.0.2.2")));
}

TEST(GidTableUpdate, ANewAddressTakesAnIndexNeverUsedNotOneThatBecameEmpty) {
  GidTable table(kGuid, std::vector{interface(2, {"::ffff:192.0.2.2"}), loopback()});
  table.update(std::vector{loopback()});
  EXPECT_THAT(table.update(std::vector{interface(2, {"::ffff:192.0.2.99"}), loopback()}).indices, ElementsAre(3u));
  EXPECT_THAT(shown(table), ElementsAre("-", "::ffff:127.0.0.1", "::1", "::ffff:192.0.2.99"));
}

TEST(GidTableUpdate, AnAddressThatComesBackGetsItsIndexAgain) {
  const std::vector<GidInterface> all{interface(2, {"::ffff:192.0.2.2"}), loopback()};
  GidTable table(kGuid, all);
  const std::vector<std::string> before = shown(table);
  EXPECT_THAT(table.update(std::vector{loopback()}).indices, ElementsAre(0u));
  EXPECT_THAT(table.update(all).indices, ElementsAre(0u));
  EXPECT_EQ(shown(table), before);
}

TEST(GidTableUpdate, AnAddressThatMovesToAnotherInterfaceIsANewEntry) {
  GidTable table(kGuid, std::vector{interface(2, {"::ffff:192.0.2.2"}), loopback()});
  EXPECT_THAT(table.update(std::vector{interface(3, {"::ffff:192.0.2.2"}), loopback()}).indices, ElementsAre(0u, 3u));
  EXPECT_EQ(table.at(3)->ifindex, 3u);
}

TEST(GidTableUpdate, ANewMtuIsTakenOverWithoutAGidChange) {
  GidInterface uplink = interface(2, {"::ffff:192.0.2.2"});
  GidTable table(kGuid, std::vector{uplink});
  uplink.mtu = 9000;
  EXPECT_THAT(table.update(std::vector{uplink}).indices, IsEmpty());
  EXPECT_EQ(table.at(0)->mtu, 9000u);
}

TEST(GidTableUpdate, WhenTheLastAddressGoesTheDerivedOneComes) {
  GidTable table(kGuid, std::vector{interface(2, {"::ffff:192.0.2.2"})});
  EXPECT_THAT(table.update({}).indices, ElementsAre(0u, 1u));
  EXPECT_THAT(shown(table), ElementsAre("-", "fe80::11:22ff:fe33:4455"));
}

TEST(GidTableUpdate, TheDerivedAddressOnceShownStays) {
  GidTable table(kGuid);
  EXPECT_THAT(table.update(std::vector{interface(2, {"::ffff:192.0.2.2"})}).indices, ElementsAre(1u));
  EXPECT_THAT(shown(table), ElementsAre("fe80::11:22ff:fe33:4455", "::ffff:192.0.2.2"));
  EXPECT_THAT(table.update(std::vector{interface(2, {"::ffff:192.0.2.2"})}).indices, IsEmpty());
}

TEST(GidTableUpdate, AddressesBeyondTheLengthAreCountedAsWithoutRoom) {
  GidTable table(kGuid);
  const GidTable::Change change = table.update(std::vector{many(0, GidTable::kLength + 5)});
  EXPECT_EQ(table.count(), GidTable::kLength);
  // One place is the derived address's, which was there first.
  EXPECT_EQ(change.without_room, 6u);
  EXPECT_EQ(change.indices.size(), GidTable::kLength - 1);
}

TEST(GidTableUpdate, AFullTableGivesANewcomerTheIndexThatWasEmptyLongest) {
  constexpr uint32_t kAll = GidTable::kLength;
  GidTable table(kGuid, std::vector{many(0, kAll)});
  table.update(std::vector{many(1, kAll - 1)});
  table.update(std::vector{many(2, kAll - 2)});
  GidInterface with_newcomer = many(2, kAll - 2);
  with_newcomer.gids.push_back(gid("2001:db8::ffff"));
  EXPECT_THAT(table.update(std::vector{with_newcomer}).indices, ElementsAre(0u));
  EXPECT_EQ(table.at(0)->gid, gid("2001:db8::ffff"));
  EXPECT_TRUE(table.at(1)->empty());
}

TEST(GidTableUpdate, ANewcomerDoesNotTakeTheIndexOfOneThatComesBackInTheSameUpdate) {
  constexpr uint32_t kAll = GidTable::kLength;
  GidTable table(kGuid, std::vector{many(0, kAll)});
  table.update(std::vector{many(1, kAll - 1)});
  GidInterface both = many(0, kAll);
  both.gids.insert(both.gids.begin(), gid("2001:db8::ffff"));
  const GidTable::Change change = table.update(std::vector{both});
  EXPECT_THAT(change.indices, ElementsAre(0u));
  EXPECT_EQ(change.without_room, 1u);
  EXPECT_EQ(table.at(0)->gid, both.gids[1]);
}

// Any sequence of updates: each index that is not empty in two successive tables means the same in both, and the
// table holds exactly what was asked for.
TEST(GidTableUpdate, NoSequenceOfUpdatesMovesAnAddress) {
  uint32_t seed = 1;
  const auto draw = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 24; };
  GidTable table(kGuid, std::vector{loopback()});
  for (int round = 0; round < 500; ++round) {
    std::vector<GidInterface> interfaces{loopback()};
    std::set<std::string> expected{"::ffff:127.0.0.1", "::1"};
    for (uint32_t i = 0; i < 40; ++i) {
      if (draw() & 1) continue;
      interfaces.push_back(interface(2 + i, {numbered(i)}));
      expected.insert(gid(numbered(i)).text());
    }
    const GidTable before = table;
    const GidTable::Change change = table.update(interfaces);
    std::set<std::string> held;
    std::vector<uint32_t> differing;
    for (uint32_t i = 0; i < GidTable::kLength; ++i) {
      const GidEntry& now = *table.at(i);
      const GidEntry& old = *before.at(i);
      if (!now.empty()) held.insert(now.gid.text());
      if (!now.empty() && !old.empty()) {
        ASSERT_EQ(now.gid, old.gid) << "index " << i;
      }
      if (now.gid != old.gid) differing.push_back(i);
    }
    ASSERT_EQ(held, expected);
    ASSERT_EQ(change.indices, differing);
    ASSERT_EQ(change.without_room, 0u);
  }
}

}  // namespace
}  // namespace verbatim::model
