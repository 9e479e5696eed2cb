// rdma_set_option(3): each option has its effect, and each wrong one its errno.
#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Option : public TwoEnds {
 protected:
  template <class Value>
  int set(rdma_cm_id* id, int level, int option, Value value, size_t size = sizeof(Value)) {
    return error_of(rdma_set_option(id, level, option, &value, size));
  }
  int set_tos(uint8_t tos) { return set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, tos); }
  int set_ack_timeout(uint8_t timeout) { return set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, timeout); }

  CmIdHandle id_ = create_id(client_.get());
};

TEST_F(Option, OfServiceIsTheTrafficClassOfThePath) {
  ASSERT_EQ(set_tos(0x28), 0);
  resolve(id_.get(), address_);
  ASSERT_EQ(id_->route.num_paths, 1);
  EXPECT_EQ(id_->route.path_rec->traffic_class, 0x28);
  listen();
  active_ = std::move(id_);
  create_queue_pair(active_.get());
  ask(plain_parameters());
  EXPECT_EQ(passive_->route.path_rec->traffic_class, 0x28);
  create_queue_pair(passive_.get());
  ASSERT_EQ(accept(plain_parameters()), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  EXPECT_EQ(query(active_->qp).ah_attr.grh.traffic_class, 0x28);
}

TEST_F(Option, OfTheAckTimeoutIsTheQueuePairs) {
  ASSERT_EQ(set_ack_timeout(13), 0);
  resolve(id_.get(), address_);
  EXPECT_EQ(id_->route.path_rec->packet_life_time, 12) << "half of it (IBTA 12.7.34)";
  listen();
  active_ = std::move(id_);
  create_queue_pair(active_.get());
  ask(plain_parameters());
  create_queue_pair(passive_.get());
  ASSERT_EQ(accept(plain_parameters()), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  EXPECT_EQ(query(active_->qp).timeout, 13);
}

TEST_F(Option, OfTheAckTimeoutHasFiveBitsAndIsForConnections) {
  EXPECT_EQ(set_ack_timeout(31), 0);
  EXPECT_EQ(set_ack_timeout(32), EINVAL);
  const CmIdHandle datagrams = create_id(client_.get(), RDMA_PS_UDP);
  EXPECT_EQ(set(datagrams.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{13}), EINVAL);
}

TEST_F(Option, OfReuseCanBeSetAndBeforeBindingUnset) {
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 0), 0);
  ASSERT_EQ(bind_to(id_.get(), address_), 0);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
  const CmIdHandle other = create_id(client_.get());
  EXPECT_EQ(set(other.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(bind_to(other.get(), address_), 0);
}

TEST_F(Option, OfTheFamilyIsForWhoDoesNotListenYet) {
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), 0);
  ASSERT_EQ(bind_to(id_.get(), SocketAddress::parse("::", kPort)), 0);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), 0);
  ASSERT_EQ(error_of(rdma_listen(id_.get(), 0)), 0);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 0), EINVAL);
}

TEST_F(Option, OfAnotherSizeIsRefused) {
  for (const int option : {RDMA_OPTION_ID_TOS, RDMA_OPTION_ID_ACK_TIMEOUT}) {
    EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, option, 1, sizeof(int)), EINVAL) << option;
    EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, option, 1, 0), EINVAL) << option;
  }
  for (const int option : {RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_AFONLY}) {
    EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, option, int64_t{1}, 1), EINVAL) << option;
    EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, option, int64_t{1}, 8), EINVAL) << option;
  }
}

TEST_F(Option, ThatDoesNotExistIsUnknown) {
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_ID, 99, 1), ENOSYS);
  EXPECT_EQ(set(id_.get(), RDMA_OPTION_IB, 99, 1), ENOSYS);
  EXPECT_EQ(set(id_.get(), 99, 1, 1), ENOSYS);
}

// ---- a path ----

class PathOption : public Option {
 protected:
  static ibv_path_data plain_path() {
    ibv_path_data data{};
    data.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
    data.path.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1;
    data.path.pkey = htons(0xffff);
    data.path.mtu = 2 << 6 | IBV_MTU_512;
    data.path.rate = 2 << 6 | IBV_RATE_10_GBPS;
    data.path.packetlifetime = 2 << 6 | 11;
    data.path.tclass = 3;
    data.path.flowlabel_hoplimit = htonl(0x12345 << 8 | 64);
    return data;
  }
  int set_path(const ibv_path_data& data, size_t size = sizeof(ibv_path_data)) {
    return set(id_.get(), RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, size);
  }
  void resolve_address() {
    ASSERT_EQ(resolve_to(id_.get(), address_), 0);
    ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
  }
};

TEST_F(PathOption, TakesThePlaceOfARoute) {
  resolve_address();
  ASSERT_EQ(set_path(plain_path()), 0);
  EXPECT_EQ(client_.take_name(), "ROUTE_RESOLVED");
  ASSERT_EQ(id_->route.num_paths, 1);
  EXPECT_EQ(id_->route.path_rec->mtu, IBV_MTU_512);
  EXPECT_EQ(id_->route.path_rec->traffic_class, 3);
  EXPECT_EQ(id_->route.path_rec->packet_life_time, 11);
  listen();
  active_ = std::move(id_);
  create_queue_pair(active_.get());
  ask(plain_parameters());
  create_queue_pair(passive_.get());
  ASSERT_EQ(accept(plain_parameters()), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  EXPECT_EQ(query(active_->qp).path_mtu, IBV_MTU_512);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
  EXPECT_EQ(query(passive_->qp).path_mtu, IBV_MTU_512);
  expect_message(active_.get(), passive_.get(), "by that path");
}

TEST_F(PathOption, BeforeTheAddressIsRefused) { EXPECT_EQ(set_path(plain_path()), EINVAL); }

TEST_F(PathOption, NeedsAWholeOneThatIsPrimaryBothWaysAndForManagementToo) {
  resolve_address();
  EXPECT_EQ(set_path(plain_path(), sizeof(ibv_path_data) - 1), EINVAL);
  EXPECT_EQ(set_path(plain_path(), 0), EINVAL);
  ibv_path_data alternate = plain_path();
  alternate.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_ALTERNATE | IBV_PATH_FLAG_BIDIRECTIONAL;
  EXPECT_EQ(set_path(alternate), EINVAL);
  EXPECT_EQ(set_path(plain_path()), 0);
}

}  // namespace
}  // namespace verbatim::conformance
