// The members of struct rdma_cm_id: which are set when, and what programs rely on (rdma_create_id(3), rdma_cma.h).
#include <set>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Identifier : public TwoEnds {
 protected:
  static void expect_device(const rdma_cm_id* id) {
    ASSERT_NE(id->verbs, nullptr);
    ASSERT_NE(id->pd, nullptr);
    EXPECT_EQ(id->pd->context, id->verbs) << "UCX reads it";
    EXPECT_EQ(id->port_num, 1);
  }
  static void expect_no_device(const rdma_cm_id* id) {
    EXPECT_EQ(id->verbs, nullptr);
    EXPECT_EQ(id->pd, nullptr);
    EXPECT_EQ(id->port_num, 0);
  }
};

TEST_F(Identifier, IsMadeAsItIsAskedFor) {
  int context = 0;
  for (const auto& [space, type] : {std::pair{RDMA_PS_TCP, IBV_QPT_RC}, std::pair{RDMA_PS_UDP, IBV_QPT_UD},
                                    std::pair{RDMA_PS_IPOIB, IBV_QPT_UD}, std::pair{RDMA_PS_IB, IBV_QPT_RC}}) {
    const CmIdHandle id = create_id(client_.get(), space, &context);
    ASSERT_TRUE(id);
    EXPECT_EQ(id->channel, client_.get());
    EXPECT_EQ(id->context, &context);
    EXPECT_EQ(id->ps, space);
    EXPECT_EQ(id->qp_type, type);
    EXPECT_EQ(id->qp, nullptr);
    EXPECT_EQ(id->event, nullptr);
    EXPECT_EQ(id->srq, nullptr);
    EXPECT_EQ(id->send_cq, nullptr);
    EXPECT_EQ(id->recv_cq, nullptr);
    EXPECT_EQ(id->send_cq_channel, nullptr);
    EXPECT_EQ(id->recv_cq_channel, nullptr);
    EXPECT_EQ(id->route.num_paths, 0);
    EXPECT_EQ(rdma_get_src_port(id.get()), 0);
    EXPECT_EQ(rdma_get_dst_port(id.get()), 0);
    expect_no_device(id.get());
  }
}

TEST_F(Identifier, OfNoPortSpaceIsRefused) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(error_of(rdma_create_id(client_.get(), &id, nullptr, static_cast<rdma_port_space>(0x123))), EINVAL);
}

TEST_F(Identifier, HasTheDeviceWhenItIsBoundToAnAddress) {
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(bind_to(id.get(), address_), 0);
  expect_device(id.get());
  EXPECT_EQ(local_address(id.get()), address_);
}

TEST_F(Identifier, HasNoDeviceWhenItIsBoundToTheWildcard) {
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(bind_to(id.get(), SocketAddress::parse("0.0.0.0", kPort)), 0);
  expect_no_device(id.get());
  ASSERT_EQ(error_of(rdma_listen(id.get(), 0)), 0);
  expect_no_device(id.get());
  EXPECT_EQ(local_address(id.get()), SocketAddress::parse("0.0.0.0", kPort));
}

TEST_F(Identifier, HasTheDeviceWhenItsAddressIsResolved) {
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  EXPECT_EQ(peer_address(id.get()), address_) << "at once";
  EXPECT_EQ(client_.take_name(), "ADDR_RESOLVED");
  expect_device(id.get());
  EXPECT_EQ(local_address(id.get()).with_port(kPort), address_);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
}

TEST_F(Identifier, HasNoDeviceWhenItsAddressCannotBeResolved) {
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), SocketAddress::parse(kNobodyIpv4, kPort)), 0);
  EXPECT_EQ(client_.take_name(), "ADDR_ERROR -113");
  expect_no_device(id.get());
}

TEST_F(Identifier, OfARequestIsOfTheListenersMaking) {
  ask();
  EXPECT_EQ(passive_->channel, server_.get());
  EXPECT_EQ(passive_->context, &listener_context_);
  EXPECT_EQ(passive_->ps, RDMA_PS_TCP);
  EXPECT_EQ(passive_->qp_type, IBV_QPT_RC);
  EXPECT_EQ(passive_->qp, nullptr);
  EXPECT_EQ(passive_->event, nullptr);
  expect_device(passive_.get());
  EXPECT_EQ(local_address(passive_.get()), address_);
  EXPECT_EQ(peer_address(passive_.get()), local_address(active_.get()));
  EXPECT_EQ(passive_->route.num_paths, 1);
}

TEST_F(Identifier, OfARequestIsOneOfItsOwn) {
  ask();
  int other = 0;
  passive_->context = &other;
  EXPECT_EQ(listener_->context, &listener_context_);
  passive_.reset();
  EXPECT_EQ(client_.take_name(), "REJECTED 28");
  active_ = resolved();
  ask();
  EXPECT_EQ(passive_->context, &listener_context_);
}

TEST_F(Identifier, SharesOneDeviceAndDomainWithAllOthers) {
  std::set<ibv_context*> contexts;
  std::set<ibv_pd*> domains;
  std::vector<CmIdHandle> ids;
  for (const char* text : {"127.0.0.1", "::1"}) {
    ids.push_back(create_id(client_.get()));
    ASSERT_EQ(bind_to(ids.back().get(), SocketAddress::parse(text)), 0);
  }
  for (const Place place : {Place::own_ipv4, Place::own_ipv6, Place::link_local})
    if (const auto own = address_at(place)) {
      ids.push_back(create_id(server_.get(), RDMA_PS_UDP));
      ASSERT_EQ(bind_to(ids.back().get(), *own), 0);
    }
  ask();
  contexts.insert(passive_->verbs);
  domains.insert(passive_->pd);
  for (const CmIdHandle& id : ids) {
    contexts.insert(id->verbs);
    domains.insert(id->pd);
  }
  EXPECT_EQ(contexts.size(), 1u);
  EXPECT_EQ(domains.size(), 1u) << "a server has memory registered for all its connections";
}

TEST_F(Identifier, FindsTheSameDeviceAsTheListOfThem) {
  int count = -1;
  ibv_context** const devices = rdma_get_devices(&count);
  ASSERT_NE(devices, nullptr) << strerror(errno);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(devices[1], nullptr);
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(bind_to(id.get(), address_), 0);
  EXPECT_EQ(devices[0], id->verbs);
  ibv_context* const device = devices[0];
  rdma_free_devices(devices);
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(device, &attributes), 0) << "it stays open (rdma_get_devices(3))";
  ibv_context** const again = rdma_get_devices(nullptr);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again[0], device);
  rdma_free_devices(again);
}

TEST_F(Identifier, KeepsTheDomainOfItsQueuePair) {
  active_ = resolved();
  ibv_pd* const own = ibv_alloc_pd(active_->verbs);
  ASSERT_NE(own, nullptr);
  const PdHandle handle(own);
  create_queue_pair(active_.get(), own);
  EXPECT_EQ(active_->pd, own);
  EXPECT_EQ(active_->qp->pd, own);
  active_.reset();
}

}  // namespace
}  // namespace verbatim::conformance
