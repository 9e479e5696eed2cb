#include "api/rdmacm/convert_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>

#include "support/two_hosts.h"

namespace verbatim::api {
namespace {

cm::Address there_and_back(const cm::Address& address) {
  const sockaddr_storage storage = to_c(address);
  const std::optional<cm::Address> back = from_c(reinterpret_cast<const sockaddr*>(&storage));
  EXPECT_TRUE(back.has_value());
  return back.value_or(cm::Address{});
}

TEST(ConvertAddress, SurvivesTheWayThereAndBack) {
  for (const cm::Address& address : {cm::ipv4("192.0.2.1", 7174), cm::ipv4("0.0.0.0"), cm::ipv6("2001:db8::1", 7174),
                                     cm::ipv6("::", 1), cm::ipv6("fe80::1", 7174, 3), cm::ipv6("::ffff:192.0.2.1", 2)})
    EXPECT_EQ(there_and_back(address), address) << address.ip.text();
}

TEST(ConvertAddress, IsAsTheCLibraryHasIt) {
  const sockaddr_storage storage = to_c(cm::ipv4("192.0.2.1", 0x1234));
  sockaddr_in ipv4;
  std::memcpy(&ipv4, &storage, sizeof ipv4);
  EXPECT_EQ(ipv4.sin_family, AF_INET);
  EXPECT_EQ(ntohs(ipv4.sin_port), 0x1234);
  EXPECT_EQ(ntohl(ipv4.sin_addr.s_addr), 0xc0000201);
  const sockaddr_storage scoped = to_c(cm::ipv6("fe80::1", 0x1234, 5));
  sockaddr_in6 ipv6;
  std::memcpy(&ipv6, &scoped, sizeof ipv6);
  EXPECT_EQ(ipv6.sin6_family, AF_INET6);
  EXPECT_EQ(ntohs(ipv6.sin6_port), 0x1234);
  EXPECT_EQ(ipv6.sin6_scope_id, 5u);
  EXPECT_EQ(ipv6.sin6_addr.s6_addr[15], 1);
  EXPECT_EQ(length_of(cm::Family::ipv4), sizeof ipv4);
  EXPECT_EQ(length_of(cm::Family::ipv6), sizeof ipv6);
}

TEST(ConvertAddress, OfNoneIsNoneAndOfAnotherFamilyNothing) {
  EXPECT_EQ(from_c(nullptr), cm::Address{});
  EXPECT_EQ(to_c(cm::Address{}).ss_family, AF_UNSPEC);
  EXPECT_EQ(length_of(cm::Family::none), 0u);
  sockaddr_un other{};
  other.sun_family = AF_UNIX;
  EXPECT_FALSE(from_c(reinterpret_cast<const sockaddr*>(&other)).has_value());
}

// Programs may have packed it.
TEST(ConvertAddress, MayBeAnywhere) {
  const sockaddr_storage storage = to_c(cm::ipv6("2001:db8::1", 7174));
  alignas(8) char bytes[1 + sizeof storage];
  std::memcpy(bytes + 1, &storage, sizeof storage);
  EXPECT_EQ(from_c(reinterpret_cast<const sockaddr*>(bytes + 1)), cm::ipv6("2001:db8::1", 7174));
}

}  // namespace
}  // namespace verbatim::api
