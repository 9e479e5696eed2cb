#include "wire/rdma_ip_cm_header.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace verbatim::wire {
namespace {

using Bytes = std::array<uint8_t, kRdmaIpCmHeaderSize>;

Gid gid(const char* address) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, address, result.bytes.data()), 1) << address;
  return result;
}

Bytes emitted(const RdmaIpCmHeader& header) {
  Bytes bytes;
  bytes.fill(0xee);
  emit_rdma_ip_cm_header(header, bytes);
  return bytes;
}

bool is_refused(std::span<const uint8_t> bytes) {
  const auto result = parse_rdma_ip_cm_header(bytes);
  return std::holds_alternative<Reason>(result) && std::get<Reason>(result) == Reason::rdma_ip_cm_header;
}

const RdmaIpCmHeader kOverIpv4{4, 0x1234, gid("::ffff:192.0.2.1"), gid("::ffff:192.0.2.2")};
const RdmaIpCmHeader kOverIpv6{6, 0x1234, gid("2001:db8::1"), gid("2001:db8::2")};

TEST(RdmaIpCmHeader, HasIpv4AddressesInTheLastFourBytesOfTheirRoom) {
  const Bytes expected{0, 0x40, 0x12, 0x34,                                        //
                       0, 0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1,  //
                       0, 0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2};
  EXPECT_EQ(emitted(kOverIpv4), expected);
}

TEST(RdmaIpCmHeader, HasIpv6AddressesWhole) {
  const Bytes bytes = emitted(kOverIpv6);
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_TRUE(std::equal(bytes.begin() + 4, bytes.begin() + 20, kOverIpv6.source_address.bytes.begin()));
  EXPECT_TRUE(std::equal(bytes.begin() + 20, bytes.end(), kOverIpv6.destination_address.bytes.begin()));
}

TEST(RdmaIpCmHeader, ComesBackAsItWasWritten) {
  for (const RdmaIpCmHeader& header : {kOverIpv4, kOverIpv6})
    EXPECT_EQ(std::get<RdmaIpCmHeader>(parse_rdma_ip_cm_header(emitted(header))), header);
}

TEST(RdmaIpCmHeader, MayHaveAnythingBeforeAnIpv4Address) {
  Bytes bytes = emitted(kOverIpv4);
  bytes[5] = 0xff, bytes[30] = 0xff;
  EXPECT_EQ(std::get<RdmaIpCmHeader>(parse_rdma_ip_cm_header(bytes)), kOverIpv4);
}

TEST(RdmaIpCmHeader, IsRefusedWhenItIsCutOff) {
  const Bytes bytes = emitted(kOverIpv4);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<uint8_t> truncated(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_TRUE(is_refused(truncated)) << length;
  }
}

TEST(RdmaIpCmHeader, IsRefusedWithAnotherVersionOfTheServiceOrOfIp) {
  for (int version = 0; version < 256; ++version) {
    Bytes bytes = emitted(kOverIpv4);
    bytes[0] = static_cast<uint8_t>(version);
    EXPECT_EQ(is_refused(bytes), version != 0) << version;
    bytes = emitted(kOverIpv4);
    bytes[1] = static_cast<uint8_t>(version);
    EXPECT_EQ(is_refused(bytes), version >> 4 != 4 && version >> 4 != 6) << version;
  }
}

}  // namespace
}  // namespace verbatim::wire
