// Ports: who may have which, here and in another process. They are rdma_cm's own, no ports of TCP or UDP. Where they
// differ from those of sockets it is Linux' rdma_cm that is followed: beside a wildcard address the error is
// EADDRNOTAVAIL.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "conformance/rdmacm/support/event_channel.h"
#include "conformance/rdmacm/support/identifier.h"
#include "local/test_child.h"

namespace verbatim::conformance {
namespace {

constexpr uint16_t kPort = 7174;
const SocketAddress kLoopback = SocketAddress::parse("127.0.0.1", kPort);
const SocketAddress kAnyIpv4 = SocketAddress::parse("0.0.0.0", kPort);
const SocketAddress kAnyIpv6 = SocketAddress::parse("::", kPort);
const SocketAddress kLoopbackIpv6 = SocketAddress::parse("::1", kPort);

int set_option(rdma_cm_id* id, int option, int value) {
  return error_of(rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof value));
}

class Port : public testing::Test {
 protected:
  struct Wish {
    SocketAddress address;
    rdma_port_space space = RDMA_PS_TCP;
    bool reuse = false;
    bool family_only = false;
    bool listen = false;
  };
  // Binds a new identifier, which stays; the errno.
  int bind(const Wish& wish) {
    CmIdHandle id = create_id(channel_.get(), wish.space);
    if (wish.reuse) {
      EXPECT_EQ(set_option(id.get(), RDMA_OPTION_ID_REUSEADDR, 1), 0);
    }
    if (wish.family_only) {
      EXPECT_EQ(set_option(id.get(), RDMA_OPTION_ID_AFONLY, 1), 0);
    }
    const int error = bind_to(id.get(), wish.address);
    if (error != 0) return error;
    if (wish.listen) {
      EXPECT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
    }
    ids_.push_back(std::move(id));
    return 0;
  }
  void release_all() { ids_.clear(); }

  const EventChannel channel_;
  std::vector<CmIdHandle> ids_;
};

TEST_F(Port, OfAnAddressIsOnesOwn) {
  EXPECT_EQ(bind({kLoopback}), 0);
  EXPECT_EQ(bind({kLoopback}), EADDRINUSE);
  EXPECT_EQ(bind({kLoopback.with_port(kPort + 1)}), 0);
  EXPECT_EQ(bind({kLoopbackIpv6}), 0);
  EXPECT_EQ(rdma_get_src_port(ids_[0].get()), htons(kPort));
  release_all();
  EXPECT_EQ(bind({kLoopback}), 0) << "free at once";
}

TEST_F(Port, OfTheWildcardExcludesThoseOfItsAddresses) {
  ASSERT_EQ(bind({kAnyIpv4}), 0);
  EXPECT_EQ(bind({kLoopback}), EADDRNOTAVAIL);
  EXPECT_EQ(bind({kAnyIpv4}), EADDRNOTAVAIL);
  EXPECT_EQ(bind({kLoopbackIpv6}), EADDRNOTAVAIL) << "of the other family, but not of it alone";
  EXPECT_EQ(bind({kLoopbackIpv6, RDMA_PS_TCP, false, true}), 0);
  release_all();
  ASSERT_EQ(bind({kLoopback}), 0);
  EXPECT_EQ(bind({kAnyIpv4}), EADDRNOTAVAIL);
}

TEST_F(Port, OfTheIpv6WildcardIsIpv4sTooUnlessItIsOnlyIpv6s) {
  ASSERT_EQ(bind({kAnyIpv6}), 0);
  EXPECT_EQ(bind({kAnyIpv4}), EADDRNOTAVAIL);
  EXPECT_EQ(bind({kLoopback}), EADDRNOTAVAIL);
  release_all();
  ASSERT_EQ(bind({kAnyIpv6, RDMA_PS_TCP, false, true}), 0);
  EXPECT_EQ(bind({kAnyIpv4}), 0);
  EXPECT_EQ(bind({kLoopbackIpv6}), EADDRNOTAVAIL);
}

TEST_F(Port, OfEachSpaceIsAnother) {
  EXPECT_EQ(bind({kLoopback, RDMA_PS_TCP}), 0);
  EXPECT_EQ(bind({kLoopback, RDMA_PS_UDP}), 0);
  EXPECT_EQ(bind({kLoopback, RDMA_PS_IPOIB}), 0);
  EXPECT_EQ(bind({kLoopback, RDMA_PS_UDP}), EADDRINUSE);
}

TEST_F(Port, IsSharedByThoseWhoAllSaySoUntilOneListens) {
  ASSERT_EQ(bind({kLoopback, RDMA_PS_TCP, true}), 0);
  ASSERT_EQ(bind({kLoopback, RDMA_PS_TCP, true}), 0);
  EXPECT_EQ(bind({kLoopback}), EADDRINUSE) << "it does not say so";
  EXPECT_EQ(error_of(rdma_listen(ids_[0].get(), 0)), EADDRINUSE) << "another one has it";
  ids_.pop_back();
  EXPECT_EQ(error_of(rdma_listen(ids_[0].get(), 0)), 0);
  EXPECT_EQ(bind({kLoopback, RDMA_PS_TCP, true}), EADDRINUSE) << "one listens";
}

TEST_F(Port, OfZeroIsAnyThatIsFree) {
  std::set<uint16_t> ports;
  constexpr int kMany = 100;
  for (int i = 0; i < kMany; ++i) {
    ASSERT_EQ(bind({kLoopback.with_port(0)}), 0);
    const uint16_t port = ntohs(rdma_get_src_port(ids_.back().get()));
    EXPECT_GE(port, 1024);
    EXPECT_EQ(local_address(ids_.back().get()), kLoopback.with_port(port));
    ports.insert(port);
  }
  EXPECT_EQ(ports.size(), static_cast<size_t>(kMany));
}

TEST_F(Port, OfWhoeverListensUnboundIsAnyOfTheWildcard) {
  const CmIdHandle id = create_id(channel_.get());
  EXPECT_EQ(rdma_get_src_port(id.get()), 0) << "none";
  ASSERT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
  EXPECT_EQ(local_address(id.get()), kAnyIpv4.with_port(ntohs(rdma_get_src_port(id.get()))));
}

TEST_F(Port, OfAnIdentifierIsBoundOnce) {
  ASSERT_EQ(bind({kLoopback}), 0);
  EXPECT_EQ(bind_to(ids_[0].get(), kLoopback.with_port(kPort + 1)), EINVAL);
}

TEST_F(Port, BelowTheLimitOfTheHostIsRootsAlone) {
  if (geteuid() == 0) {
    EXPECT_EQ(bind({kLoopback.with_port(80)}), 0);
    return;
  }
  EXPECT_EQ(bind({kLoopback.with_port(80)}), EACCES);
}

TEST_F(Port, IsNoPortOfTheKernels) {
  ASSERT_EQ(bind({kLoopback, RDMA_PS_TCP, false, false, true}), 0);
  const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  ASSERT_EQ(setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse), 0);
  // Another program of this machine may have it, but not this one.
  const int result = ::bind(tcp, kLoopback.get(), sizeof(sockaddr_in));
  EXPECT_TRUE(result == 0 || errno == EADDRINUSE) << strerror(errno);
  if (result == 0) {
    EXPECT_EQ(::listen(tcp, 1), 0);
  }
  close(tcp);
}

// ---- who hears a request ----

class Listeners : public Port {
 protected:
  // Which of `ids_` hears a client that asks for this address; -1: nobody.
  int heard_at(const SocketAddress& address, rdma_port_space space = RDMA_PS_TCP) {
    const CmIdHandle id = create_id(client_.get(), space);
    EXPECT_EQ(resolve_to(id.get(), address), 0);
    EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
    EXPECT_EQ(error_of(rdma_resolve_route(id.get(), 2000)), 0);
    EXPECT_EQ(client_.take_name(), "ROUTE_RESOLVED");
    rdma_conn_param parameters = parameters_of_foreign_queue_pair();
    EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
    while (!channel_.is_readable(std::chrono::milliseconds(1)) && !client_.is_readable()) continue;
    const std::optional<CmEvent> request = channel_.take({});
    if (!request) {
      const std::optional<CmEvent> refused = client_.take();
      EXPECT_TRUE(refused && (refused->type == RDMA_CM_EVENT_REJECTED || refused->type == RDMA_CM_EVENT_UNREACHABLE))
          << name(refused);
      return -1;
    }
    EXPECT_EQ(name(request), "CONNECT_REQUEST");
    const CmIdHandle passive(request->id);
    for (size_t i = 0; i < ids_.size(); ++i)
      if (request->listen_id == ids_[i].get()) return static_cast<int>(i);
    return -2;
  }
  void listen(SocketAddress address, rdma_port_space space = RDMA_PS_TCP, bool family_only = false) {
    ASSERT_EQ(bind({address, space, false, family_only, true}), 0);
  }

  const EventChannel client_;
};

TEST_F(Listeners, OfAnAddressHearRequestsForItAlone) {
  listen(kLoopback);
  EXPECT_EQ(heard_at(kLoopback), 0);
  EXPECT_EQ(heard_at(kLoopbackIpv6), -1);
  EXPECT_EQ(heard_at(kLoopback.with_port(kPort + 1)), -1);
  EXPECT_EQ(heard_at(kLoopback, RDMA_PS_UDP), -1);
}

TEST_F(Listeners, OfTheWildcardHearRequestsForEachAddress) {
  listen(kAnyIpv4);
  EXPECT_EQ(heard_at(kLoopback), 0);
  if (const auto own = address_at(Place::own_ipv4)) {
    EXPECT_EQ(heard_at(own->with_port(kPort)), 0);
  }
  EXPECT_EQ(heard_at(kLoopbackIpv6), -1);
}

TEST_F(Listeners, OfTheIpv6WildcardHearBothFamilies) {
  listen(kAnyIpv6);
  EXPECT_EQ(heard_at(kLoopbackIpv6), 0);
  EXPECT_EQ(heard_at(kLoopback), 0);
  if (const auto own = address_at(Place::link_local)) {
    EXPECT_EQ(heard_at(own->with_port(kPort)), 0);
  }
}

TEST_F(Listeners, OfEachFamilyAtOnePortAsTgtdHasThem) {
  listen(kAnyIpv4);
  listen(kAnyIpv6, RDMA_PS_TCP, true);
  EXPECT_EQ(heard_at(kLoopback), 0);
  EXPECT_EQ(heard_at(kLoopbackIpv6), 1);
}

TEST_F(Listeners, OfSpacesAtOnePortAreApart) {
  listen(kLoopback, RDMA_PS_TCP);
  listen(kLoopback, RDMA_PS_UDP);
  listen(kLoopback, RDMA_PS_IPOIB);
  EXPECT_EQ(heard_at(kLoopback, RDMA_PS_TCP), 0);
  EXPECT_EQ(heard_at(kLoopback, RDMA_PS_UDP), 1);
  EXPECT_EQ(heard_at(kLoopback, RDMA_PS_IPOIB), 2);
}

TEST_F(Listeners, OfPortZeroAreFoundAtThePortTheyGot) {
  listen(kLoopback.with_port(0));
  EXPECT_EQ(heard_at(local_address(ids_[0].get())), 0);
}

// ---- another process ----

TEST(PortOfAnotherProcess, IsInUseUntilThatOneEnds) {
  local::TestChild other([](local::TestChild::Talk& talk) {
    talk.hear();
    const EventChannel channel;
    const CmIdHandle id = create_id(channel.get()), any = create_id(channel.get());
    EXPECT_EQ(bind_to(id.get(), kLoopback), 0);
    EXPECT_EQ(bind_to(any.get(), kLoopback.with_port(0)), 0);
    talk.say(ntohs(rdma_get_src_port(any.get())));
    talk.hear();
    return 1;
  });
  const EventChannel channel;
  other.say(0);
  const auto port = static_cast<uint16_t>(other.hear());
  const CmIdHandle id = create_id(channel.get());
  EXPECT_EQ(bind_to(id.get(), kLoopback), EADDRINUSE);
  EXPECT_EQ(bind_to(id.get(), kLoopback.with_port(port)), EADDRINUSE);
  EXPECT_EQ(bind_to(id.get(), kAnyIpv4), EADDRNOTAVAIL);
  kill(other.pid(), SIGKILL);
  EXPECT_EQ(other.join(), -SIGKILL);
  // The agent may hear of it a little later than the parent.
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  int error = 0;
  do {
    error = bind_to(id.get(), kLoopback);
  } while (error == EADDRINUSE && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(error, 0);
}

}  // namespace
}  // namespace verbatim::conformance
