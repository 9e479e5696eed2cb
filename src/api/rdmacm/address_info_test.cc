#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "api/rdmacm/convert_address.h"
#include "support/failing_allocation.h"
#include "support/two_hosts.h"

namespace verbatim::api {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::FailingAllocation;

constexpr uint16_t kPort = 7174;
constexpr const char* kService = "7174";

const cm::Address kNone{};

// One entry, without pointers.
struct Entry {
  int flags = 0;
  int family = 0;
  int qp_type = 0;
  int port_space = 0;
  cm::Address source;
  cm::Address destination;
  std::string source_name;
  std::string destination_name;
};

cm::Address value_of(const sockaddr* address, socklen_t length) {
  EXPECT_EQ(address == nullptr, length == 0);
  const cm::Address value = from_c(address).value_or(kNone);
  EXPECT_EQ(length, length_of(value.family));
  return value;
}
std::string text_of(const char* name) { return name ? name : ""; }

class AddressInfo : public testing::Test {
 protected:
  static rdma_addrinfo flags(int flags) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    return hints;
  }
  static rdma_addrinfo with_family(int family, int flags = RAI_FAMILY) {
    rdma_addrinfo hints = AddressInfo::flags(flags);
    hints.ai_family = family;
    return hints;
  }
  static rdma_addrinfo kind(int port_space, int qp_type) {
    rdma_addrinfo hints{};
    hints.ai_port_space = port_space;
    hints.ai_qp_type = qp_type;
    return hints;
  }
  // The hints refer to the fixture's memory.
  rdma_addrinfo from(const cm::Address& source, rdma_addrinfo hints = {}) {
    source_ = to_c(source);
    hints.ai_src_addr = reinterpret_cast<sockaddr*>(&source_);
    hints.ai_src_len = length_of(source.family);
    return hints;
  }
  rdma_addrinfo to(const cm::Address& destination, rdma_addrinfo hints = {}) {
    destination_ = to_c(destination);
    hints.ai_dst_addr = reinterpret_cast<sockaddr*>(&destination_);
    hints.ai_dst_len = length_of(destination.family);
    return hints;
  }

  static int error_of(const char* node, const char* service, const rdma_addrinfo* hints = nullptr) {
    rdma_addrinfo* chain = nullptr;
    errno = 0;
    const int error = rdma_getaddrinfo(node, service, hints, &chain);
    EXPECT_EQ(chain == nullptr, error != 0);
    rdma_freeaddrinfo(chain);
    return error;
  }
  static int error_of(const char* node, const char* service, const rdma_addrinfo& hints) {
    return error_of(node, service, &hints);
  }
  static std::vector<Entry> find(const char* node, const char* service, const rdma_addrinfo* hints = nullptr) {
    rdma_addrinfo* chain = nullptr;
    const int error = rdma_getaddrinfo(node, service, hints, &chain);
    EXPECT_EQ(error, 0) << gai_strerror(error);
    std::vector<Entry> entries;
    for (const rdma_addrinfo* info = chain; info; info = info->ai_next) {
      EXPECT_EQ(info->ai_route_len, 0u);
      EXPECT_EQ(info->ai_connect_len, 0u);
      entries.push_back({.flags = info->ai_flags,
                         .family = info->ai_family,
                         .qp_type = info->ai_qp_type,
                         .port_space = info->ai_port_space,
                         .source = value_of(info->ai_src_addr, info->ai_src_len),
                         .destination = value_of(info->ai_dst_addr, info->ai_dst_len),
                         .source_name = text_of(info->ai_src_canonname),
                         .destination_name = text_of(info->ai_dst_canonname)});
    }
    rdma_freeaddrinfo(chain);
    return entries;
  }
  static std::vector<Entry> find(const char* node, const char* service, const rdma_addrinfo& hints) {
    return find(node, service, &hints);
  }
  // Where there is to be one entry only.
  static Entry find_one(const char* node, const char* service, const rdma_addrinfo& hints = {}) {
    const std::vector<Entry> entries = find(node, service, hints);
    EXPECT_THAT(entries, SizeIs(1));
    return entries.empty() ? Entry{} : entries.front();
  }

  sockaddr_storage source_{};
  sockaddr_storage destination_{};
};

// ---- a node and a service ----

TEST_F(AddressInfo, OfTheActiveSideIsADestination) {
  for (const Entry& entry : {find("192.0.2.1", kService).at(0), find_one("192.0.2.1", kService)}) {
    EXPECT_EQ(entry.destination, cm::ipv4("192.0.2.1", kPort));
    EXPECT_EQ(entry.source, kNone);
    EXPECT_EQ(entry.family, AF_INET);
    EXPECT_EQ(entry.flags, 0);
    EXPECT_EQ(entry.destination_name, "192.0.2.1");
    EXPECT_EQ(entry.source_name, "");
  }
  const Entry ipv6 = find_one("2001:db8::1", kService);
  EXPECT_EQ(ipv6.destination, cm::ipv6("2001:db8::1", kPort));
  EXPECT_EQ(ipv6.family, AF_INET6);
}

TEST_F(AddressInfo, OfThePassiveSideIsASource) {
  const Entry entry = find_one("192.0.2.1", kService, flags(RAI_PASSIVE));
  EXPECT_EQ(entry.source, cm::ipv4("192.0.2.1", kPort));
  EXPECT_EQ(entry.destination, kNone);
  EXPECT_EQ(entry.family, AF_INET);
  // rdma_create_ep(3) finds there which side it is.
  EXPECT_EQ(entry.flags, RAI_PASSIVE);
  EXPECT_EQ(entry.source_name, "192.0.2.1");
  EXPECT_EQ(entry.destination_name, "");
}

TEST_F(AddressInfo, OfANodeAloneHasNoPort) {
  EXPECT_EQ(find_one("192.0.2.1", nullptr).destination, cm::ipv4("192.0.2.1"));
}

TEST_F(AddressInfo, OfAServiceAloneIsThisHost) {
  for (const Entry& entry : find(nullptr, kService))
    EXPECT_THAT(entry.destination, AnyOf(cm::ipv4("127.0.0.1", kPort), cm::ipv6("::1", kPort)));
  const std::vector<Entry> passive = find(nullptr, kService, flags(RAI_PASSIVE));
  ASSERT_FALSE(passive.empty());
  for (const Entry& entry : passive) {
    EXPECT_THAT(entry.source, AnyOf(cm::ipv4("0.0.0.0", kPort), cm::ipv6("::", kPort)));
    EXPECT_EQ(entry.destination, kNone);
  }
}

TEST_F(AddressInfo, OfANameHasEachOfItsAddressesOnce) {
  std::vector<cm::Address> addresses;
  for (const Entry& entry : find("localhost", kService)) {
    EXPECT_FALSE(entry.destination_name.empty());
    EXPECT_EQ(entry.family, entry.destination.family == cm::Family::ipv4 ? AF_INET : AF_INET6);
    addresses.push_back(entry.destination);
  }
  EXPECT_THAT(addresses, Contains(cm::ipv4("127.0.0.1", kPort)));
  EXPECT_THAT(addresses, Each(AnyOf(cm::ipv4("127.0.0.1", kPort), cm::ipv6("::1", kPort))));
}

TEST_F(AddressInfo, KeepsTheScopeOfALinkLocalAddress) {
  const unsigned loopback = if_nametoindex("lo");
  ASSERT_NE(loopback, 0u);
  EXPECT_EQ(find_one("fe80::1%lo", kService).destination, cm::ipv6("fe80::1", kPort, loopback));
  EXPECT_EQ(find_one("fe80::1%lo", kService, flags(RAI_NUMERICHOST)).destination, cm::ipv6("fe80::1", kPort, loopback));
  EXPECT_EQ(find_one(nullptr, nullptr, from(cm::ipv6("fe80::1", 1, 7), flags(RAI_PASSIVE))).source,
            cm::ipv6("fe80::1", 1, 7));
}

TEST_F(AddressInfo, OfNothingIsAnError) {
  EXPECT_EQ(error_of(nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(error_of(nullptr, nullptr, flags(0)), EAI_NONAME);
  EXPECT_EQ(error_of(nullptr, nullptr, flags(RAI_PASSIVE)), EAI_NONAME);
}

TEST_F(AddressInfo, OfWhatNobodyKnowsIsAnError) {
  EXPECT_EQ(error_of("192.0.2.1", "no-such-service"), EAI_SERVICE);
  EXPECT_EQ(error_of("192.0.2.300", kService, flags(RAI_NUMERICHOST)), EAI_NONAME);
}

TEST_F(AddressInfo, HasNoPortsBeyond65535) {
  EXPECT_EQ(find_one("192.0.2.1", "65535").destination.port, 65535);
  for (const char* service : {"65536", "70000", "99999999999999999999999"})
    EXPECT_EQ(error_of("192.0.2.1", service), EAI_SERVICE) << service;
  EXPECT_EQ(error_of(nullptr, "65536", to(cm::ipv4("192.0.2.1"))), EAI_SERVICE);
}

// ---- flags ----

TEST_F(AddressInfo, NumericHostRefusesNames) {
  EXPECT_EQ(error_of("localhost", kService, flags(RAI_NUMERICHOST)), EAI_NONAME);
  EXPECT_EQ(error_of("localhost", kService, flags(RAI_NUMERICHOST | RAI_PASSIVE)), EAI_NONAME);
  EXPECT_EQ(find_one("127.0.0.1", kService, flags(RAI_NUMERICHOST)).destination, cm::ipv4("127.0.0.1", kPort));
}

TEST_F(AddressInfo, NoRouteChangesNothing) {
  const Entry entry = find_one("192.0.2.1", kService, flags(RAI_NOROUTE));
  EXPECT_EQ(entry.destination, cm::ipv4("192.0.2.1", kPort));
  EXPECT_EQ(entry.flags, RAI_NOROUTE);
}

TEST_F(AddressInfo, TheFamilyCountsWithItsFlagOnly) {
  EXPECT_EQ(find_one("127.0.0.1", kService, with_family(AF_INET)).destination, cm::ipv4("127.0.0.1", kPort));
  EXPECT_EQ(find_one("::1", kService, with_family(AF_INET6)).destination, cm::ipv6("::1", kPort));
  EXPECT_EQ(find_one("127.0.0.1", kService, with_family(AF_UNSPEC)).family, AF_INET);
  EXPECT_EQ(error_of("127.0.0.1", kService, with_family(AF_INET6)), EAI_ADDRFAMILY);
  EXPECT_EQ(find_one("127.0.0.1", kService, with_family(AF_INET6, 0)).family, AF_INET);
  EXPECT_EQ(find_one("127.0.0.1", kService, with_family(99, 0)).family, AF_INET);
  for (const Entry& entry : find(nullptr, kService, with_family(AF_INET6, RAI_FAMILY | RAI_PASSIVE)))
    EXPECT_EQ(entry.source, cm::ipv6("::", kPort));
}

TEST_F(AddressInfo, OtherFamiliesAreNotSupported) {
  for (const int family : {AF_UNIX, AF_IB, 99, -1})
    EXPECT_EQ(error_of("127.0.0.1", kService, with_family(family)), EAI_FAMILY) << family;
}

TEST_F(AddressInfo, UnknownFlagsAreRefused) {
  for (const int unknown : {0x10, 0x20, 0x1000, -1}) {
    EXPECT_EQ(error_of("127.0.0.1", kService, flags(unknown)), EAI_BADFLAGS) << unknown;
    EXPECT_EQ(errno, EINVAL);
  }
}

// ---- port spaces and types of queue pairs ----

TEST_F(AddressInfo, ThePortSpaceAndTheTypeSayEachOther) {
  struct Row {
    int port_space, qp_type, then_port_space, then_qp_type;
  };
  for (const Row& row : std::vector<Row>{
           {0, 0, RDMA_PS_TCP, IBV_QPT_RC},
           {RDMA_PS_TCP, 0, RDMA_PS_TCP, IBV_QPT_RC},
           {RDMA_PS_UDP, 0, RDMA_PS_UDP, IBV_QPT_UD},
           {RDMA_PS_IPOIB, 0, RDMA_PS_IPOIB, IBV_QPT_UD},
           {RDMA_PS_IB, 0, RDMA_PS_IB, IBV_QPT_RC},
           {0, IBV_QPT_RC, RDMA_PS_TCP, IBV_QPT_RC},
           {0, IBV_QPT_UC, RDMA_PS_TCP, IBV_QPT_UC},
           {0, IBV_QPT_UD, RDMA_PS_UDP, IBV_QPT_UD},
           {0, IBV_QPT_XRC_SEND, RDMA_PS_TCP, IBV_QPT_XRC_SEND},
           {0, IBV_QPT_XRC_RECV, RDMA_PS_TCP, IBV_QPT_XRC_RECV},
       }) {
    const Entry entry = find_one("127.0.0.1", kService, kind(row.port_space, row.qp_type));
    EXPECT_EQ(entry.port_space, row.then_port_space) << row.port_space << " " << row.qp_type;
    EXPECT_EQ(entry.qp_type, row.then_qp_type) << row.port_space << " " << row.qp_type;
  }
  const Entry without_hints = find("127.0.0.1", kService).at(0);
  EXPECT_EQ(without_hints.port_space, RDMA_PS_TCP);
  EXPECT_EQ(without_hints.qp_type, IBV_QPT_RC);
}

TEST_F(AddressInfo, ThePortSpaceAndTheTypeMustAgree) {
  // The types of each space, of those there are.
  const std::vector<std::pair<int, std::vector<int>>> spaces{
      {RDMA_PS_TCP, {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV}},
      {RDMA_PS_UDP, {IBV_QPT_UD}},
      {RDMA_PS_IPOIB, {IBV_QPT_UD}},
      {RDMA_PS_IB, {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV}},
      {0x999, {}}};
  for (const auto& [space, types] : spaces)
    for (const int type : {int{IBV_QPT_RC}, int{IBV_QPT_UC}, int{IBV_QPT_UD}, int{IBV_QPT_RAW_PACKET},
                           int{IBV_QPT_XRC_SEND}, int{IBV_QPT_XRC_RECV}, 77, -1}) {
      const bool agree = std::find(types.begin(), types.end(), type) != types.end();
      EXPECT_EQ(error_of("127.0.0.1", kService, kind(space, type)), agree ? 0 : EAI_SOCKTYPE) << space << " " << type;
    }
  EXPECT_EQ(error_of("127.0.0.1", kService, kind(0x999, 0)), EAI_SOCKTYPE);
  EXPECT_EQ(error_of("127.0.0.1", kService, kind(0, 77)), EAI_SOCKTYPE);
}

// ---- addresses in the hints ----

TEST_F(AddressInfo, HasACopyOfTheSourceThatWasGiven) {
  const rdma_addrinfo hints = from(cm::ipv4("192.0.2.7", 5));
  rdma_addrinfo* chain = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("192.0.2.1", kService, &hints, &chain), 0);
  std::memset(&source_, 0xff, sizeof source_);
  EXPECT_EQ(value_of(chain->ai_src_addr, chain->ai_src_len), cm::ipv4("192.0.2.7", 5));
  EXPECT_EQ(value_of(chain->ai_dst_addr, chain->ai_dst_len), cm::ipv4("192.0.2.1", kPort));
  rdma_freeaddrinfo(chain);
}

TEST_F(AddressInfo, HasNoDestinationThatTheSourceCannotReach) {
  const std::vector<Entry> entries = find("localhost", kService, from(cm::ipv4("127.0.0.1")));
  ASSERT_FALSE(entries.empty());
  for (const Entry& entry : entries) EXPECT_EQ(entry.destination, cm::ipv4("127.0.0.1", kPort));
  EXPECT_EQ(error_of("127.0.0.1", kService, from(cm::ipv6("::1"))), EAI_ADDRFAMILY);
}

TEST_F(AddressInfo, TheNodeCountsMoreThanTheHints) {
  EXPECT_EQ(find_one("192.0.2.1", kService, to(cm::ipv4("192.0.2.9", 5))).destination, cm::ipv4("192.0.2.1", kPort));
  const Entry passive = find_one("192.0.2.1", kService, from(cm::ipv6("::1", 5), flags(RAI_PASSIVE)));
  EXPECT_EQ(passive.source, cm::ipv4("192.0.2.1", kPort));
}

TEST_F(AddressInfo, WithoutANodeIsThatOfTheHints) {
  const Entry destination = find_one(nullptr, nullptr, to(cm::ipv4("192.0.2.9", 5)));
  EXPECT_EQ(destination.destination, cm::ipv4("192.0.2.9", 5));
  EXPECT_EQ(destination.family, AF_INET);
  EXPECT_EQ(destination.destination_name, "");
  const Entry both = find_one(nullptr, nullptr, from(cm::ipv6("2001:db8::2", 4), to(cm::ipv6("2001:db8::1", 5))));
  EXPECT_EQ(both.source, cm::ipv6("2001:db8::2", 4));
  EXPECT_EQ(both.destination, cm::ipv6("2001:db8::1", 5));
  const Entry source = find_one(nullptr, nullptr, from(cm::ipv4("192.0.2.7", 5)));
  EXPECT_EQ(source.source, cm::ipv4("192.0.2.7", 5));
  EXPECT_EQ(source.destination, kNone);
  EXPECT_EQ(source.family, AF_INET);
}

TEST_F(AddressInfo, OfThePassiveSideHasNoDestinationOfTheHintsEither) {
  const Entry passive =
      find_one(nullptr, nullptr, from(cm::ipv4("192.0.2.7", 5), to(cm::ipv4("192.0.2.9", 6), flags(RAI_PASSIVE))));
  EXPECT_EQ(passive.source, cm::ipv4("192.0.2.7", 5));
  EXPECT_EQ(passive.destination, kNone);
  EXPECT_EQ(error_of(nullptr, nullptr, to(cm::ipv4("192.0.2.9", 6), flags(RAI_PASSIVE))), EAI_NONAME);
}

TEST_F(AddressInfo, AServiceIsThePortOfTheHintsAddress) {
  EXPECT_EQ(find_one(nullptr, kService, to(cm::ipv6("2001:db8::1", 5))).destination, cm::ipv6("2001:db8::1", kPort));
  EXPECT_EQ(find_one(nullptr, kService, from(cm::ipv4("192.0.2.7", 5), flags(RAI_PASSIVE))).source,
            cm::ipv4("192.0.2.7", kPort));
  EXPECT_EQ(error_of(nullptr, "no-such-service", to(cm::ipv4("192.0.2.1"))), EAI_SERVICE);
}

TEST_F(AddressInfo, AddressesOfOtherFamiliesOrTooShortAreRefused) {
  sockaddr_un other{};
  other.sun_family = AF_UNIX;
  rdma_addrinfo hints{};
  hints.ai_src_addr = reinterpret_cast<sockaddr*>(&other);
  hints.ai_src_len = sizeof other;
  EXPECT_EQ(error_of("127.0.0.1", kService, hints), EAI_FAMILY);
  for (const cm::Address& address : {cm::ipv4("127.0.0.1"), cm::ipv6("::1")})
    for (const socklen_t length : {socklen_t{1}, socklen_t{2}, length_of(address.family) - 1}) {
      rdma_addrinfo source = from(address);
      source.ai_src_len = length;
      EXPECT_EQ(error_of("localhost", kService, source), -1) << length;
      EXPECT_EQ(errno, EINVAL);
      rdma_addrinfo destination = to(address);
      destination.ai_dst_len = length;
      EXPECT_EQ(error_of("localhost", kService, destination), -1) << length;
      EXPECT_EQ(errno, EINVAL);
    }
}

TEST_F(AddressInfo, AHintWithoutAnAddressOrALengthIsNone) {
  rdma_addrinfo hints = from(cm::ipv6("::1"));
  hints.ai_src_len = 0;
  EXPECT_EQ(find_one("127.0.0.1", kService, hints).source, kNone);
  hints = from(cm::ipv6("::1"));
  hints.ai_src_addr = nullptr;
  EXPECT_EQ(find_one("127.0.0.1", kService, hints).source, kNone);
}

// ---- memory ----

TEST_F(AddressInfo, WithoutMemoryIsAnErrorAndLeavesNothing) {
  if (!FailingAllocation::kPossible) GTEST_SKIP() << "the sanitizer takes the place of allocation";
  const rdma_addrinfo hints = from(cm::ipv4("192.0.2.7", 5));
  unsigned others = 0;
  for (bool has_come = true; has_come; ++others) {
    rdma_addrinfo* chain = nullptr;
    int error = 0;
    {
      const FailingAllocation failing(others);
      error = rdma_getaddrinfo("192.0.2.1", kService, &hints, &chain);
      has_come = failing.has_come();
    }
    // The C library does without some of its own.
    EXPECT_THAT(error, AnyOf(0, EAI_MEMORY)) << others;
    EXPECT_EQ(chain == nullptr, error != 0);
    rdma_freeaddrinfo(chain);
  }
  EXPECT_GT(others, 4u);
}

TEST_F(AddressInfo, OfNothingIsFreed) { rdma_freeaddrinfo(nullptr); }

TEST_F(AddressInfo, IsFreedWithThePiecesThatAProgramPutIn) {
  rdma_addrinfo* chain = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", kService, nullptr, &chain), 0);
  chain->ai_src_addr = static_cast<sockaddr*>(std::malloc(sizeof(sockaddr_in)));
  chain->ai_route = std::malloc(1);
  chain->ai_connect = std::malloc(1);
  rdma_freeaddrinfo(chain);
}

}  // namespace
}  // namespace verbatim::api
