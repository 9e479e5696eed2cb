#include "proto/datagram_header.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbatim {
namespace {

Gid gid(const char* text) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, text, result.bytes.data()), 1) << text;
  return result;
}

TEST(DatagramHeader, BetweenIpv4AddressesIsAnIpv4HeaderInTheLast20Bytes) {
  const DatagramAddress address{.source = gid("::ffff:192.0.2.3"),
                                .destination = gid("::ffff:192.0.2.2"),
                                .flow_label = 0x12345,
                                .traffic_class = 0x28,
                                .hop_limit = 64};
  // 8 bytes make 60: 20 of this header, 8 of UDP, 12 of BTH, 8 of DETH, the payload, 4 of ICRC. The checksum was
  // worked out by hand.
  const std::vector<uint8_t> expected{0x45, 0x28, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                      0xb6, 0x83, 192,  0,    2,    3,    192,  0,    2,    2};
  const std::array<uint8_t, 40> header = datagram_header(address, 8);
  EXPECT_EQ(std::vector<uint8_t>(header.begin() + 20, header.end()), expected);
  EXPECT_EQ(std::count(header.begin(), header.begin() + 20, 0), 20);
}

TEST(DatagramHeader, BetweenIpv6AddressesIsAnIpv6Header) {
  const DatagramAddress address{.source = gid("fe80::3"),
                                .destination = gid("ff0e::2"),
                                .flow_label = 0x12345,
                                .traffic_class = 0x28,
                                .hop_limit = 1};
  const std::array<uint8_t, 40> header = datagram_header(address, 8);
  const std::vector<uint8_t> first{0x62, 0x81, 0x23, 0x45, 0x00, 0x28, 0x11, 0x01};
  EXPECT_EQ(std::vector<uint8_t>(header.begin(), header.begin() + 8), first);
  EXPECT_TRUE(std::equal(address.source.bytes.begin(), address.source.bytes.end(), header.begin() + 8));
  EXPECT_TRUE(std::equal(address.destination.bytes.begin(), address.destination.bytes.end(), header.begin() + 24));
}

TEST(DatagramHeader, AFlowLabelOfMoreThan20BitsLeavesTheTrafficClassAlone) {
  const DatagramAddress address{.source = gid("fe80::3"), .destination = gid("fe80::2"), .flow_label = 0xfffffff0};
  const std::array<uint8_t, 40> header = datagram_header(address, 0);
  EXPECT_EQ(header[0], 0x60);
  EXPECT_EQ(header[1], 0x0f);
}

TEST(DatagramHeader, ItsLengthCountsThePaddingOfThePayload) {
  const DatagramAddress address{.source = gid("fe80::3"), .destination = gid("fe80::2")};
  const auto length = [&](uint32_t payload) {
    const std::array<uint8_t, 40> header = datagram_header(address, payload);
    return header[4] << 8 | header[5];
  };
  EXPECT_EQ(length(0), 32);
  EXPECT_EQ(length(1), 36);
  EXPECT_EQ(length(4), 36);
  EXPECT_EQ(length(4096 + 4), 4132);
}

}  // namespace
}  // namespace verbatim
