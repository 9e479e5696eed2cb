// rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3).
#include <rdma/rdma_verbs.h>

#include <array>
#include <atomic>
#include <span>
#include <thread>

#include "conformance/rdmacm/support/two_ends.h"
#include "conformance/support/datagram_header.h"

namespace verbatim::conformance {
namespace {

class MulticastGroup : public TwoEnds {
 protected:
  MulticastGroup() { space_ = RDMA_PS_UDP; }

  CmIdHandle bound(const EventChannel& channel) {
    CmIdHandle id = create_id(channel.get(), RDMA_PS_UDP);
    EXPECT_EQ(bind_to(id.get(), address_.with_port(0)), 0);
    return id;
  }
  static int join(rdma_cm_id* id, const SocketAddress& group, void* context = nullptr) {
    return error_of(rdma_join_multicast(id, group.get(), context));
  }
  static int join_as(rdma_cm_id* id, const SocketAddress& group, uint32_t flags,
                     uint32_t mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) {
    rdma_cm_join_mc_attr_ex attributes{.comp_mask = mask, .join_flags = flags, .addr = group.get()};
    return error_of(rdma_join_multicast_ex(id, &attributes, nullptr));
  }
  static int leave(rdma_cm_id* id, const SocketAddress& group) {
    return error_of(rdma_leave_multicast(id, group.get()));
  }
  // The way from `id` to its own address, as the event says the way to the group.
  static AhHandle way_to_itself(rdma_cm_id* id, const CmEvent& joined) {
    ibv_ah_attr attributes = joined.datagram.ah_attr;
    EXPECT_EQ(ibv_query_gid(id->verbs, 1, attributes.grh.sgid_index, &attributes.grh.dgid), 0);
    return AhHandle(ibv_create_ah(id->pd, &attributes));
  }
  static void send(rdma_cm_id* id, std::span<char> text, ibv_ah* way, uint32_t qpn) {
    const MrHandle region(rdma_reg_msgs(id, text.data(), text.size()));
    ASSERT_EQ(rdma_post_ud_send(id, nullptr, text.data(), text.size(), region.get(), IBV_SEND_SIGNALED, way, qpn), 0);
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_send_comp(id, &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
  }
  // Whether a message to the group of the event arrives at `to`: before one that is sent to it alone after that.
  static bool reaches(rdma_cm_id* from, const CmEvent& joined, rdma_cm_id* to) {
    ibv_ah_attr attributes = joined.datagram.ah_attr;
    const AhHandle to_group(ibv_create_ah(from->pd, &attributes)), to_it = way_to_itself(from, joined);
    EXPECT_TRUE(to_group && to_it);
    std::array<char, 10> to_all{"to all"};
    std::array<char, 20> to_one{"to one"};
    std::array<char, 128> space{};
    const MrHandle destination(rdma_reg_msgs(to, space.data(), space.size()));
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(rdma_post_recv(to, nullptr, space.data(), space.size(), destination.get()), 0);
    send(from, to_all, to_group.get(), joined.datagram.qp_num);
    send(from, to_one, to_it.get(), to->qp->qp_num);
    ibv_wc completion{};
    EXPECT_EQ(rdma_get_recv_comp(to, &completion), 1);
    const bool reached = completion.byte_len == kDatagramHeader + to_all.size();
    // The other receive must not be left with the buffer.
    if (!reached) send(from, to_one, to_it.get(), to->qp->qp_num);
    EXPECT_EQ(rdma_get_recv_comp(to, &completion), 1);
    EXPECT_EQ(completion.byte_len, kDatagramHeader + to_one.size());
    return reached;
  }

  const SocketAddress group_ = SocketAddress::parse("239.1.2.3"), other_group_ = SocketAddress::parse("239.1.2.4");
};

TEST_F(MulticastGroup, IsJoinedWithAContextAndTellsWhereToSend) {
  const CmIdHandle id = bound(client_);
  int context = 0;
  ASSERT_EQ(join(id.get(), group_, &context), 0);
  const std::optional<CmEvent> joined = client_.take();
  ASSERT_EQ(name(joined), "MULTICAST_JOIN");
  EXPECT_EQ(joined->id, id.get());
  EXPECT_EQ(joined->join_context, &context);
  EXPECT_EQ(joined->datagram.qp_num, 0xffffffu);
  EXPECT_EQ(joined->datagram.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(joined->datagram.ah_attr.is_global, 1);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  EXPECT_EQ(memcmp(joined->datagram.ah_attr.grh.dgid.raw, mapped, sizeof mapped), 0);
  expect_quiet();
}

TEST_F(MulticastGroup, AttachesTheQueuePairUntilItIsLeft) {
  const CmIdHandle sender = bound(client_), receiver = bound(server_);
  create_queue_pair(sender.get());
  create_queue_pair(receiver.get());
  ASSERT_EQ(join(sender.get(), group_), 0);
  const std::optional<CmEvent> joined = client_.take();
  ASSERT_EQ(name(joined), "MULTICAST_JOIN");
  ASSERT_EQ(join(receiver.get(), group_), 0);
  ASSERT_EQ(server_.take_name(), "MULTICAST_JOIN");
  EXPECT_TRUE(reaches(sender.get(), *joined, receiver.get()));
  EXPECT_TRUE(reaches(sender.get(), *joined, receiver.get()));
  ASSERT_EQ(leave(receiver.get(), group_), 0);
  EXPECT_FALSE(reaches(sender.get(), *joined, receiver.get()));
}

TEST_F(MulticastGroup, IsNotReceivedByWhoOnlySends) {
  const CmIdHandle sender = bound(client_), receiver = bound(server_);
  create_queue_pair(sender.get());
  create_queue_pair(receiver.get());
  ASSERT_EQ(join_as(sender.get(), group_, RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
  const std::optional<CmEvent> joined = client_.take();
  ASSERT_EQ(name(joined), "MULTICAST_JOIN");
  ASSERT_EQ(join_as(receiver.get(), group_, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
  ASSERT_EQ(server_.take_name(), "MULTICAST_JOIN");
  EXPECT_FALSE(reaches(sender.get(), *joined, receiver.get()));
  EXPECT_EQ(leave(receiver.get(), group_), 0);
}

TEST_F(MulticastGroup, OfIpv6IsJoinedToo) {
  address_ = SocketAddress::parse("::1");
  const CmIdHandle id = bound(client_);
  ASSERT_EQ(join(id.get(), SocketAddress::parse("ff0e::9")), 0);
  const std::optional<CmEvent> joined = client_.take();
  ASSERT_EQ(name(joined), "MULTICAST_JOIN");
  EXPECT_EQ(joined->datagram.ah_attr.grh.dgid.raw[0], 0xff);
}

TEST_F(MulticastGroup, IsOneOfManyOfAnIdentifier) {
  const CmIdHandle id = bound(client_);
  int contexts[2];
  ASSERT_EQ(join(id.get(), group_, &contexts[0]), 0);
  ASSERT_EQ(join(id.get(), other_group_, &contexts[1]), 0);
  for (int& context : contexts) {
    const std::optional<CmEvent> joined = client_.take();
    ASSERT_EQ(name(joined), "MULTICAST_JOIN");
    EXPECT_EQ(joined->join_context, &context);
  }
  EXPECT_EQ(leave(id.get(), group_), 0);
  EXPECT_EQ(leave(id.get(), group_), EADDRNOTAVAIL) << "left already";
  EXPECT_EQ(leave(id.get(), other_group_), 0);
}

TEST_F(MulticastGroup, ThatIsLeftBeforeItIsToldIsNotTold) {
  const CmIdHandle id = bound(client_);
  ASSERT_EQ(join(id.get(), group_), 0);
  EXPECT_EQ(leave(id.get(), group_), 0);
  expect_quiet();
}

TEST_F(MulticastGroup, IsLeftWhenItsEventsAreAcknowledged) {
  const CmIdHandle id = bound(client_);
  ASSERT_EQ(join(id.get(), group_), 0);
  CmEventHandle joined = client_.fetch();
  ASSERT_TRUE(joined);
  std::atomic<bool> begun{false}, acknowledging{false};
  std::thread leaver([&] {
    begun = true;
    EXPECT_EQ(leave(id.get(), group_), 0);
    EXPECT_TRUE(acknowledging) << "it did not wait";
  });
  while (!begun) std::this_thread::yield();
  for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
  acknowledging = true;
  joined.reset();
  leaver.join();
}

TEST_F(MulticastGroup, EndsWithTheIdentifier) {
  CmIdHandle id = bound(client_);
  ASSERT_EQ(join(id.get(), group_), 0);
  ASSERT_EQ(join(id.get(), other_group_), 0);
  ASSERT_EQ(client_.take_name(), "MULTICAST_JOIN");
  id.reset();
  expect_quiet();
}

TEST_F(MulticastGroup, IsJoinedBySomeoneWhoseAddressIsResolved) {
  const CmIdHandle id = create_id(client_.get(), RDMA_PS_UDP);
  // As mckey does: what leads to the group.
  ASSERT_EQ(error_of(rdma_resolve_addr(id.get(), address_.with_port(0).get(), group_.get(), kPatience)), 0);
  ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
  ASSERT_EQ(join(id.get(), group_), 0);
  EXPECT_EQ(client_.take_name(), "MULTICAST_JOIN");
}

TEST_F(MulticastGroup, ThatIsNoneOrWithoutADeviceIsRefused) {
  const CmIdHandle id = bound(client_), unbound = create_id(client_.get(), RDMA_PS_UDP),
                   stream = create_id(client_.get());
  EXPECT_EQ(join(unbound.get(), group_), EINVAL);
  ASSERT_EQ(bind_to(stream.get(), address_.with_port(0)), 0);
  EXPECT_EQ(join(stream.get(), group_), EINVAL) << "for datagrams only";
  EXPECT_EQ(leave(id.get(), group_), EADDRNOTAVAIL);
  sockaddr nonsense{};
  nonsense.sa_family = AF_UNIX;
  EXPECT_EQ(error_of(rdma_join_multicast(id.get(), &nonsense, nullptr)), EINVAL);
  EXPECT_EQ(error_of(rdma_leave_multicast(id.get(), &nonsense)), EINVAL);
  expect_quiet();
}

TEST_F(MulticastGroup, IsJoinedByWholeAttributesOnly) {
  const CmIdHandle id = bound(client_);
  EXPECT_EQ(join_as(id.get(), group_, 0, RDMA_CM_JOIN_MC_ATTR_ADDRESS), EINVAL);
  EXPECT_EQ(join_as(id.get(), group_, 0, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS), EINVAL);
  EXPECT_EQ(join_as(id.get(), group_, 0, RDMA_CM_JOIN_MC_ATTR_RESERVED), ENOTSUP);
  EXPECT_EQ(join_as(id.get(), group_, RDMA_MC_JOIN_FLAG_RESERVED), EINVAL);
  EXPECT_EQ(join_as(id.get(), {}, 0), EINVAL);
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
