#include "base/types.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/time.h"

namespace verbatim {
namespace {

TEST(Qpn, ComposesSlotAndIndex) {
  const Qpn qpn = Qpn::of(Slot{0xabc}, 0x123);
  EXPECT_EQ(qpn.value, 0xabc123u);
  EXPECT_EQ(qpn.slot(), Slot{0xabc});
  EXPECT_EQ(qpn.index(), 0x123u);
}

TEST(Qpn, ExtremesStayIn24Bits) {
  EXPECT_EQ(Qpn::of(Slot{0}, 0).value, 0u);
  EXPECT_EQ(Qpn::of(Slot{kLastSlot}, Qpn::kPerSlot - 1).value, 0xffefffu);
  EXPECT_EQ(Qpn{0xffffff}.slot().value, 0xfffu);
  EXPECT_EQ(Qpn{0xffffff}.index(), Qpn::kPerSlot - 1);
}

TEST(Qpn, TheTopByteOfAWordIsNoPartOfTheSlot) { EXPECT_EQ(Qpn{0xff000001}.slot().value, 0u); }

TEST(Slot, TheAgentsAndTheLastOneAreNotGivenOut) {
  EXPECT_LT(kAgentSlot.value, kFirstSlot);
  EXPECT_EQ(kLastSlot + 1, 0xfff);
}

TEST(Gid, PrintsAsInetNtopDoes) {
  Gid gid;
  EXPECT_EQ(gid.text(), "::");
  EXPECT_TRUE(gid.is_zero());
  ASSERT_EQ(inet_pton(AF_INET6, "::ffff:10.0.0.1", gid.bytes.data()), 1);
  EXPECT_EQ(gid.text(), "::ffff:10.0.0.1");
  EXPECT_FALSE(gid.is_zero());
  ASSERT_EQ(inet_pton(AF_INET6, "2001:db8:ffff:eeee:dddd:cccc:bbbb:aaaa", gid.bytes.data()), 1);
  EXPECT_EQ(gid.text(), "2001:db8:ffff:eeee:dddd:cccc:bbbb:aaaa") << "the longest text";
}

TEST(Gid, KnowsIpv4AddressesAndGroups) {
  struct Row {
    const char* text;
    bool ipv4, multicast;
  };
  constexpr Row kRows[] = {
      {"::ffff:10.0.0.1", true, false},
      {"::ffff:223.255.255.255", true, false},
      {"::ffff:224.0.0.0", true, true},
      {"::ffff:239.255.255.255", true, true},
      {"::ffff:240.0.0.0", true, false},
      {"::ff00:224.0.0.1", false, false},
      {"ff0e::ffff:239.1.2.3", false, true},
      {"ff02::1", false, true},
      {"fe80::1", false, false},
      {"::", false, false},
  };
  for (const Row& row : kRows) {
    Gid gid;
    ASSERT_EQ(inet_pton(AF_INET6, row.text, gid.bytes.data()), 1) << row.text;
    EXPECT_EQ(gid.is_ipv4_mapped(), row.ipv4) << row.text;
    EXPECT_EQ(gid.is_multicast(), row.multicast) << row.text;
  }
}

TEST(Gid, WordsAreItsHalvesInMemoryOrder) {
  Gid gid;
  for (size_t i = 0; i < gid.bytes.size(); ++i) gid.bytes[i] = static_cast<uint8_t>(i + 1);
  uint64_t halves[2];
  std::memcpy(halves, gid.bytes.data(), sizeof halves);
  EXPECT_EQ(gid.word(0), halves[0]);
  EXPECT_EQ(gid.word(1), halves[1]);
  EXPECT_NE(gid.word(0), gid.word(1));
}

TEST(Time, UnitsAgree) {
  EXPECT_EQ(Duration::milliseconds(3), Duration::microseconds(3000));
  EXPECT_EQ(Duration::microseconds(3), Duration::nanoseconds(3000));
  EXPECT_EQ(Duration::milliseconds(2) * 5 + Duration::nanoseconds(1), Duration::nanoseconds(10'000'001));
}

TEST(Time, AnInstantAndADurationMakeALaterInstant) {
  const Instant start{1000};
  EXPECT_EQ((start + Duration::nanoseconds(50)) - start, Duration::nanoseconds(50));
  EXPECT_LT(start, start + Duration::nanoseconds(1));
  EXPECT_LT(Instant{std::numeric_limits<int64_t>::max() - 1}, kNever);
}

}  // namespace
}  // namespace verbatim
