#include "conformance/support/datagram_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

namespace verbatim::conformance {
namespace {

constexpr uint8_t kHopLimit = 64;
constexpr uint8_t kUdp = 17;

bool is_ipv4(const ibv_gid& gid) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::ranges::equal(kMapped, std::span(gid.raw).first(sizeof kMapped));
}

}  // namespace

void expect_datagram_header(const std::array<uint8_t, kDatagramHeader>& header, const ibv_gid& from,
                            const ibv_gid& to) {
  const std::span bytes(header);
  if (is_ipv4(to)) {
    const std::span packet = bytes.subspan(20);
    EXPECT_EQ(packet[0] >> 4, 4);
    EXPECT_EQ(packet[8], kHopLimit);
    EXPECT_EQ(packet[9], kUdp);
    EXPECT_TRUE(std::ranges::equal(packet.subspan(12, 4), std::span(from.raw + 12, 4))) << "the sender";
    EXPECT_TRUE(std::ranges::equal(packet.subspan(16, 4), std::span(to.raw + 12, 4))) << "the target";
  } else {
    EXPECT_EQ(bytes[0] >> 4, 6);
    EXPECT_EQ(bytes[6], kUdp);
    EXPECT_EQ(bytes[7], kHopLimit);
    EXPECT_TRUE(std::ranges::equal(bytes.subspan(8, 16), std::span(from.raw))) << "the sender";
    EXPECT_TRUE(std::ranges::equal(bytes.subspan(24, 16), std::span(to.raw))) << "the target";
  }
}

}  // namespace verbatim::conformance
