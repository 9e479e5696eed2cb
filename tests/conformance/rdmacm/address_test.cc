// rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3): each kind of address that this host has, and those
// that it has not.
#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

// ---- each address of the host ----

class AddressOfHost : public TwoEnds, public testing::WithParamInterface<Place> {
 protected:
  void SetUp() override {
    const std::optional<SocketAddress> found = address_at(GetParam());
    if (!found) GTEST_SKIP() << "this host has no such address";
    address_ = found->with_port(kPort);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, AddressOfHost,
                         testing::Values(Place::loopback_ipv4, Place::loopback_ipv6, Place::own_ipv4, Place::own_ipv6,
                                         Place::link_local),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(AddressOfHost, CanBeConnectedToAndBothKnowBoth) {
  connect();
  EXPECT_EQ(local_address(passive_.get()), address_);
  EXPECT_EQ(peer_address(active_.get()), address_);
  EXPECT_EQ(local_address(active_.get()).with_port(0), address_.with_port(0)) << "from itself to itself";
  EXPECT_EQ(peer_address(passive_.get()), local_address(active_.get()));
  EXPECT_EQ(rdma_get_dst_port(active_.get()), htons(kPort));
  EXPECT_EQ(rdma_get_src_port(active_.get()), rdma_get_dst_port(passive_.get()));
  expect_message(active_.get(), passive_.get(), "hello");
  expect_message(passive_.get(), active_.get(), "and back");
}

TEST_P(AddressOfHost, IsReachedThroughTheWildcard) {
  listener_ = create_id(server_.get());
  ASSERT_EQ(bind_to(listener_.get(), SocketAddress::parse(address_.family() == AF_INET ? "0.0.0.0" : "::", kPort)), 0);
  ASSERT_EQ(error_of(rdma_listen(listener_.get(), 0)), 0);
  connect();
  EXPECT_EQ(local_address(passive_.get()), address_);
  expect_message(active_.get(), passive_.get(), "hello");
}

TEST_P(AddressOfHost, MayBeTheSourceThatAProgramChooses) {
  const SocketAddress source = address_.with_port(kPort + 1);
  // With the resolution, or before it.
  for (const bool before : {false, true}) {
    const CmIdHandle id = create_id(client_.get());
    if (before) {
      ASSERT_EQ(bind_to(id.get(), source), 0);
      EXPECT_EQ(local_address(id.get()), source);
    }
    ASSERT_EQ(error_of(rdma_resolve_addr(id.get(), before ? nullptr : source.get(), address_.get(), kPatience)), 0);
    EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
    EXPECT_EQ(local_address(id.get()), source);
    EXPECT_EQ(peer_address(id.get()), address_);
  }
}

// ---- what is no address of anybody's ----

class Resolving : public TwoEnds {
 protected:
  int resolve_from(const SocketAddress& source, const SocketAddress& destination) {
    return error_of(rdma_resolve_addr(id_.get(), source.get(), destination.get(), kPatience));
  }
  const CmIdHandle id_ = create_id(client_.get());
};

TEST_F(Resolving, AnAddressOfAnotherHostIsAnErrorAndMayBeTriedAgain) {
  for (const char* nobody : {kNobodyIpv4, kNobodyIpv6}) {
    const CmIdHandle id = create_id(client_.get());
    ASSERT_EQ(resolve_to(id.get(), SocketAddress::parse(nobody, kPort)), 0);
    const std::optional<CmEvent> error = client_.take();
    EXPECT_EQ(name(error), "ADDR_ERROR -113") << "EHOSTUNREACH";
    EXPECT_EQ(error->id, id.get());
    EXPECT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), EINVAL);
  }
  ASSERT_EQ(resolve_to(id_.get(), SocketAddress::parse(kNobodyIpv4, kPort)), 0);
  EXPECT_EQ(client_.take_name(), "ADDR_ERROR -113");
  ASSERT_EQ(resolve_to(id_.get(), address_), 0);
  EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
}

TEST_F(Resolving, TheWildcardMeansOneself) {
  ASSERT_EQ(resolve_to(id_.get(), SocketAddress::parse("0.0.0.0", kPort)), 0);
  EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
  EXPECT_EQ(peer_address(id_.get()), address_);
  EXPECT_EQ(local_address(id_.get()).with_port(0), address_.with_port(0));
}

TEST_F(Resolving, WhatIsNoAddressIsRefused) {
  sockaddr nonsense{};
  nonsense.sa_family = AF_UNIX;
  EXPECT_EQ(error_of(rdma_bind_addr(id_.get(), &nonsense)), EINVAL);
  EXPECT_EQ(error_of(rdma_bind_addr(id_.get(), nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_resolve_addr(id_.get(), nullptr, &nonsense, kPatience)), EINVAL);
  EXPECT_EQ(error_of(rdma_resolve_addr(id_.get(), nullptr, nullptr, kPatience)), EINVAL);
  EXPECT_EQ(error_of(rdma_resolve_addr(id_.get(), &nonsense, address_.get(), kPatience)), EINVAL);
  expect_quiet();
}

TEST_F(Resolving, FromAnAddressOfAnotherHostIsRefused) {
  EXPECT_EQ(bind_to(id_.get(), SocketAddress::parse(kNobodyIpv4, kPort)), EADDRNOTAVAIL);
  EXPECT_EQ(resolve_from(SocketAddress::parse(kNobodyIpv4), address_), EADDRNOTAVAIL);
  EXPECT_EQ(bind_to(id_.get(), address_.with_port(0)), 0) << "what failed may be tried again";
}

TEST_F(Resolving, BetweenFamiliesIsRefused) {
  EXPECT_EQ(resolve_from(SocketAddress::parse("::1"), address_), EINVAL);
  ASSERT_EQ(bind_to(id_.get(), SocketAddress::parse("::1")), 0);
  EXPECT_EQ(resolve_to(id_.get(), address_), EINVAL);
  expect_quiet();
}

TEST_F(Resolving, ALinkLocalAddressNeedsItsInterface) {
  EXPECT_EQ(bind_to(id_.get(), SocketAddress::parse("fe80::1", kPort)), EINVAL);
}

TEST_F(Resolving, ARouteBeforeTheAddressIsRefused) {
  ASSERT_EQ(bind_to(id_.get(), address_), 0);
  EXPECT_EQ(error_of(rdma_resolve_route(id_.get(), kPatience)), EINVAL);
}

TEST_F(Resolving, TwiceIsRefused) {
  resolve(id_.get(), address_);
  EXPECT_EQ(resolve_to(id_.get(), address_), EINVAL);
  EXPECT_EQ(error_of(rdma_resolve_route(id_.get(), kPatience)), EINVAL);
  expect_quiet();
}

TEST_F(Resolving, ARouteGivesAPath) {
  const std::optional<SocketAddress> own = address_at(Place::own_ipv4);
  if (!own) GTEST_SKIP() << "this host has no such address";
  resolve(id_.get(), own->with_port(kPort));
  ASSERT_EQ(id_->route.num_paths, 1);
  ASSERT_NE(id_->route.path_rec, nullptr);
  const ibv_sa_path_rec& path = *id_->route.path_rec;
  const auto* const address = reinterpret_cast<const sockaddr_in*>(own->get());
  uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  memcpy(mapped + 12, &address->sin_addr, 4);
  EXPECT_EQ(memcmp(path.sgid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(memcmp(path.dgid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(path.pkey, htons(0xffff));
  EXPECT_GE(path.mtu, IBV_MTU_256);
  EXPECT_LE(path.mtu, IBV_MTU_4096);
  EXPECT_EQ(path.hop_limit, 64);
  EXPECT_EQ(memcmp(id_->route.addr.addr.ibaddr.sgid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(memcmp(id_->route.addr.addr.ibaddr.dgid.raw, mapped, sizeof mapped), 0);
}

}  // namespace
}  // namespace verbatim::conformance
