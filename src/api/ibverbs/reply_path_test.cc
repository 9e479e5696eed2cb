#include "api/ibverbs/reply_path.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "proto/datagram_header.h"

namespace verbatim::api {
namespace {

using Bytes = std::array<uint8_t, 40>;

Bytes ipv6_header() {
  Bytes bytes{};
  // Version 6, traffic class 0x28, flow label 0x12345.
  bytes[0] = 0x62;
  bytes[1] = 0x81;
  bytes[2] = 0x23;
  bytes[3] = 0x45;
  bytes[7] = 64;
  bytes[8] = 0xfe;
  bytes[9] = 0x80;
  bytes[23] = 3;
  bytes[24] = 0xfe;
  bytes[25] = 0x80;
  bytes[39] = 2;
  return bytes;
}

// From 192.0.2.3 to 192.0.2.2, TOS 0x28; the checksum was worked out by hand.
Bytes ipv4_header() {
  Bytes bytes{};
  const std::vector<uint8_t> header{0x45, 0x28, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                    0xb6, 0x83, 192,  0,    2,    3,    192,  0,    2,    2};
  std::ranges::copy(header, bytes.begin() + 20);
  return bytes;
}

Gid ipv6(const char* text) {
  Gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.bytes.data()), 1) << text;
  return gid;
}

Gid ipv4(const std::string& text) { return ipv6(("::ffff:" + text).c_str()); }

TEST(ReplyPath, ReadsAnIpv6Header) {
  const std::optional<ReplyPath> path = reply_path(ipv6_header());
  ASSERT_TRUE(path);
  EXPECT_EQ(path->sender.text(), "fe80::3");
  EXPECT_EQ(path->receiver.text(), "fe80::2");
  EXPECT_EQ(path->flow_label, 0x12345u);
  EXPECT_EQ(path->traffic_class, 0x28);
}

TEST(ReplyPath, ReadsAnIpv4HeaderAsMappedAddresses) {
  const std::optional<ReplyPath> path = reply_path(ipv4_header());
  ASSERT_TRUE(path);
  EXPECT_EQ(path->sender.text(), "::ffff:192.0.2.3");
  EXPECT_EQ(path->receiver.text(), "::ffff:192.0.2.2");
  EXPECT_EQ(path->flow_label, 0u);
  EXPECT_EQ(path->traffic_class, 0x28);
}

TEST(ReplyPath, WhatStandsBeforeAnIpv4HeaderDoesNotMatter) {
  Bytes bytes = ipv4_header();
  const std::optional<ReplyPath> clean = reply_path(bytes);
  ASSERT_TRUE(clean);
  std::fill_n(bytes.begin(), 20, 0x66);
  EXPECT_EQ(reply_path(bytes), clean);
}

TEST(ReplyPath, AnIpv6AddressThatLooksLikeAnIpv4HeaderIsToldApartByTheChecksum) {
  Bytes bytes = ipv6_header();
  bytes[20] = 0x45;
  const std::optional<ReplyPath> path = reply_path(bytes);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->flow_label, 0x12345u);
}

TEST(ReplyPath, BytesThatAreNeitherHeaderHaveNone) {
  EXPECT_EQ(reply_path(Bytes{}), std::nullopt);
  Bytes damaged = ipv4_header();
  damaged[35] ^= 1;
  EXPECT_EQ(reply_path(damaged), std::nullopt);
}

TEST(ReplyPath, ReadsWhatAReceivedDatagramSays) {
  const ReplyPath paths[] = {
      {.sender = ipv4("192.0.2.3"), .receiver = ipv4("192.0.2.2"), .traffic_class = 0x28},
      {.sender = ipv4("192.0.2.3"), .receiver = ipv4("239.1.2.3")},
      {.sender = ipv6("fe80::3"), .receiver = ipv6("ff0e::1"), .flow_label = 0xfffff, .traffic_class = 0xff},
      // The 20 bytes at the end begin as an IPv4 header does.
      {.sender = ipv6("fe80::4500:1"), .receiver = ipv6("fe80::2"), .flow_label = 1},
  };
  for (const ReplyPath& path : paths)
    for (const uint32_t length : {0u, 1u, 1024u, 4100u}) {
      const DatagramAddress address{.source = path.sender,
                                    .destination = path.receiver,
                                    .flow_label = path.flow_label,
                                    .traffic_class = path.traffic_class,
                                    .hop_limit = 64};
      EXPECT_EQ(reply_path(datagram_header(address, length)), path) << path.receiver.text() << ", " << length;
    }
}

}  // namespace
}  // namespace verbatim::api
