#include "model/device_attributes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbatim::model {
namespace {

uint32_t lanes(uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    default:
      return 0;
  }
}

double gigabits_of_lane(uint8_t speed) {
  switch (speed) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
      return 10;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

double gigabits(LinkRate rate) { return lanes(rate.width) * gigabits_of_lane(rate.speed); }

TEST(LinkRate, OfACommonEthernetSpeedIsExact) {
  for (const uint32_t gbps : {5, 10, 20, 25, 40, 50, 100, 200, 400, 800}) {
    EXPECT_DOUBLE_EQ(gigabits(link_rate(gbps * 1000)), gbps) << gbps;
  }
}

TEST(LinkRate, NeverClaimsMoreThanTheLinkExceptTheLowestThereIs) {
  double last = 0;
  for (uint32_t mbps = 0; mbps <= 1'000'000; mbps += 500) {
    const double claimed = gigabits(link_rate(mbps));
    ASSERT_GE(claimed, last) << mbps;
    if (mbps < 2500) {
      ASSERT_EQ(claimed, 2.5) << mbps;
    } else {
      ASSERT_LE(claimed * 1000, mbps);
    }
    last = claimed;
  }
}

TEST(PortAttributes, FollowTheInterfaceOfTheFirstGid) {
  GidEntry entry{.ifindex = 2, .mtu = 9000, .speed_mbps = 25000};
  const PortAttributes port = port_attributes(entry);
  EXPECT_EQ(port.active_mtu, PathMtu::bytes_4096);
  EXPECT_EQ(port.rate, (LinkRate{1, 32}));
  EXPECT_EQ(port.gid_tbl_len, static_cast<int>(GidTable::kLength));
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.flags, kGrhRequired);
  entry.mtu = 1500;
  EXPECT_EQ(port_attributes(entry).active_mtu, PathMtu::bytes_1024);
}

TEST(DeviceAttributes, VendorIsNonZeroAndLocallyAdministered) {
  const DeviceAttributes device;
  EXPECT_NE(device.vendor_part_id, 0u);
  EXPECT_LT(device.vendor_id, 1u << 24);
  EXPECT_EQ(device.vendor_id >> 16 & 0x03, 0x02u);
}

TEST(DeviceAttributes, ResponderResourcesAreEnoughForEveryQueuePair) {
  const DeviceAttributes device;
  EXPECT_EQ(device.max_res_rd_atom, 8388608);
}

TEST(Guid, IsALocallyAdministeredIndividualEui64) {
  for (int i = 0; i < 1000; ++i) {
    const uint64_t guid = guid_from(std::to_string(i));
    ASSERT_EQ(guid >> 56 & 0x03, 0x02u) << i;
  }
}

TEST(Guid, IsTheSameForTheSameIdentityAndDiffersForSimilarOnes) {
  EXPECT_EQ(guid_from("host 4026531833"), guid_from(std::string("host 4026531833")));
  std::set<uint64_t> seen;
  for (int i = 0; i < 100000; ++i) seen.insert(guid_from("host " + std::to_string(4026531833u + i)));
  EXPECT_EQ(seen.size(), 100000u);
}

TEST(Guid, EveryFreeBitDependsOnTheIdentity) {
  uint64_t ones = 0;
  uint64_t zeros = 0;
  for (int i = 0; i < 64; ++i) {
    ones |= guid_from(std::to_string(i));
    zeros |= ~guid_from(std::to_string(i));
  }
  const uint64_t fixed = uint64_t{0x03} << 56;
  EXPECT_EQ(ones | fixed, UINT64_MAX);
  EXPECT_EQ(zeros | fixed, UINT64_MAX);
}

}  // namespace
}  // namespace verbatim::model
