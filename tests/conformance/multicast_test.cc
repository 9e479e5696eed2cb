// Messages to a multicast group of this host: ibv_attach_mcast(3). Each attached queue pair gets one, wherever it
// lives, and nobody else.
#include <algorithm>

#include "conformance/support/datagram_header.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kMessage = 64;
constexpr uint32_t kShort = 32;
constexpr uint32_t kEveryQueuePair = 0xffffff;
// Where the receives are.
constexpr uint64_t kMember = 1024;
constexpr uint64_t kFormer = 2048;

// A group that is reached from a GID of this kind: a routed IPv6 one, or an IPv4 one.
ibv_gid group_for(const ibv_gid& gid) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  ibv_gid group{};
  if (std::equal(std::begin(kMapped), std::end(kMapped), gid.raw)) {
    std::ranges::copy(kMapped, group.raw);
    group.raw[12] = 239;
  } else {
    group.raw[0] = 0xff;
    group.raw[1] = 0x12;
  }
  group.raw[15] = 77;
  return group;
}

class MulticastMessage : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  MulticastMessage() {
    set_up(GetParam(), IBV_WR_SEND, kLength, IBV_QPT_UD);
    group_ = group_for(near_->gid());
    connect();
    get_acquainted();
    far_former_ = far_->create_queue_pair(IBV_QPT_UD);
    EXPECT_EQ(far_->connect(1, far_former_, {}, IBV_QPT_UD), 0);
    member_ = near_->create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_UD);
    former_ = near_->create_queue_pair(kOrdinaryCapabilities, false, IBV_QPT_UD);
    for (ibv_qp* const qp : {member_.get(), former_.get()}) {
      EXPECT_EQ(conformance::connect(qp, far_address_), 0);
      EXPECT_EQ(ibv_attach_mcast(qp, &group_, 0), 0);
    }
    for (const uint32_t index : {0u, 1u}) EXPECT_EQ(far_->attach(index, group_), 0);
    EXPECT_EQ(ibv_detach_mcast(former_.get(), &group_, 0), 0);
    EXPECT_EQ(far_->detach(1, group_), 0);
    post_receive(member_.get(), 11, kMember);
    post_receive(former_.get(), 12, kFormer);
    EXPECT_EQ(far_->post_receive(0, 21, {{kMember, kDatagramHeader + kMessage}}), 0);
    EXPECT_EQ(far_->post_receive(1, 22, {{kFormer, kDatagramHeader + kMessage}}), 0);
    fill(memory_->bytes(0, kMessage), 1);
  }
  // The two processes.
  void get_acquainted() {
    EXPECT_EQ(far_->post_receive(0, 20, {{kMember, kDatagramHeader + kShort}}), 0);
    send(0, far_address_.gid, far_address_.qpn, kShort);
    expect_receive(far_->poll(), 20, far_address_.qpn, kShort);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_detach_mcast(member_.get(), &group_, 0), 0);
    EXPECT_EQ(far_->detach(0, group_), 0);
    member_.reset();
    former_.reset();
    PairTest::TearDown();
  }

  void post_receive(ibv_qp* qp, uint64_t id, uint64_t offset) {
    ibv_sge sge = local(offset, kDatagramHeader + kMessage);
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp, &request, &bad), 0);
  }
  void send(uint64_t id, const ibv_gid& to, uint32_t qpn, uint32_t length) {
    const AhHandle handle = near_->create_address_handle(to);
    EXPECT_EQ(post(Request{.id = id,
                           .opcode = IBV_WR_SEND,
                           .sges = {local(0, length)},
                           .flags = 0,
                           .handle = handle.get(),
                           .qpn = qpn,
                           .qkey = Wiring{}.qkey}),
              kAllPosted);
  }
  static void expect_receive(const std::optional<ibv_wc>& completion, uint64_t id, uint32_t qpn, uint32_t length) {
    ASSERT_TRUE(completion) << "receive " << id << " was not taken";
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, qpn, false}));
    EXPECT_EQ(completion->byte_len, kDatagramHeader + length);
    EXPECT_EQ(completion->wc_flags, unsigned{IBV_WC_GRH});
  }

  ibv_gid group_{};
  Address far_former_;
  QpHandle member_, former_;
};
INSTANTIATE_TEST_SUITE_P(Each, MulticastMessage, every_setting(), setting_name);

TEST_P(MulticastMessage, ReachesWhoIsAttachedInEveryProcess) {
  send(1, group_, kEveryQueuePair, kMessage);
  expect_receive(near_->poll(), 11, member_->qp_num, kMessage);
  expect_receive(far_->poll(), 21, far_address_.qpn, kMessage);
  std::array<uint8_t, kDatagramHeader> header;
  std::ranges::copy(memory_->bytes(kMember, kDatagramHeader), header.begin());
  expect_datagram_header(header, near_->gid(), group_);
  expect_datagram_header(far_->bytes_at(kMember), near_->gid(), group_);
  EXPECT_EQ(first_difference(memory_->bytes(kMember + kDatagramHeader, kMessage), 1), std::nullopt);
  EXPECT_EQ(far_->first_difference(kMember + kDatagramHeader, kMessage, 1, 0), std::nullopt);
}

TEST_P(MulticastMessage, ReachesWhoAttachedAMomentAgoInAProcessThatNobodyKnew) {
  const AhHandle known_for_long = near_->create_address_handle(group_);
  for (uint64_t round = 0; round < 20; ++round) {
    const std::unique_ptr<Responder> stranger = Responder::start(GetParam());
    stranger->register_memory(kLength);
    const Address address = stranger->create_queue_pair(IBV_QPT_UD);
    ASSERT_EQ(stranger->connect(0, address, {}, IBV_QPT_UD), 0);
    ASSERT_EQ(stranger->post_receive(0, 31, {{kMember, kDatagramHeader + kMessage}}), 0);
    ASSERT_EQ(stranger->attach(0, group_), 0);
    send(round, group_, kEveryQueuePair, kMessage);
    expect_receive(stranger->poll(std::chrono::milliseconds(5000)), 31, address.qpn, kMessage);
    EXPECT_EQ(stranger->detach(0, group_), 0);
  }
}

TEST_P(MulticastMessage, AnAttachedQueuePairIsBusy) { EXPECT_EQ(ibv_destroy_qp(member_.get()), EBUSY); }

TEST_P(MulticastMessage, ReachesNobodyWhoIsDetached) {
  send(1, group_, kEveryQueuePair, kMessage);
  // Messages of one queue pair arrive in order.
  send(2, near_->gid(), former_->qp_num, kShort);
  send(3, far_former_.gid, far_former_.qpn, kShort);
  expect_receive(near_->poll(), 11, member_->qp_num, kMessage);
  expect_receive(near_->poll(), 12, former_->qp_num, kShort);
  expect_receive(far_->poll(), 21, far_address_.qpn, kMessage);
  expect_receive(far_->poll(), 22, far_former_.qpn, kShort);
}

}  // namespace
}  // namespace verbatim::conformance
