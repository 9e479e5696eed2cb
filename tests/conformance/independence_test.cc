// Queue pairs between the same two processes: one that has no receive stops no other.
#include "conformance/support/datagram_header.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

// Where the data of the one that goes on is, and of the one that is stuck.
constexpr uint64_t kLive = 0;
constexpr uint64_t kStuck = 14000;
constexpr uint32_t kLong = 12'000;  // is fetched, not carried
constexpr uint32_t kLongDatagram = 1024;
constexpr uint32_t kShort = 64;
constexpr uint64_t kSeed = 2;

class BesideOneWithoutAReceive : public PairTest,
                                 public testing::WithParamInterface<std::tuple<Setting, ibv_qp_type, ibv_qp_type>> {
 protected:
  ibv_qp_type stuck_type() const { return std::get<1>(GetParam()); }
  BesideOneWithoutAReceive() {
    set_up(std::get<0>(GetParam()), IBV_WR_SEND, kLength, std::get<2>(GetParam()));
    connect();
    stuck_ = near_->create_queue_pair(kOrdinaryCapabilities, false, stuck_type());
    far_stuck_ = far_->create_queue_pair(stuck_type());
    EXPECT_EQ(far_->connect(1, near_->address_of(stuck_.get()), {}, stuck_type()), 0);
    EXPECT_EQ(conformance::connect(stuck_.get(), far_stuck_), 0);
    fill(memory_->bytes(), kSeed);
    handle_ = near_->create_address_handle(far_address_.gid);
  }
  void TearDown() override {
    stuck_.reset();
    handle_.reset();
    PairTest::TearDown();
  }
  Request send(uint64_t id, const Address& to, uint64_t offset, uint32_t length, unsigned flags = 0) const {
    return {.id = id,
            .opcode = IBV_WR_SEND,
            .sges = {local(offset, length)},
            .flags = flags,
            .handle = handle_.get(),
            .qpn = to.qpn,
            .qkey = Wiring{}.qkey};
  }
  void expect_received(uint64_t id, uint32_t qpn, uint32_t length) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id << " was not taken";
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, qpn, false}));
    EXPECT_EQ(completion->byte_len, length);
  }

  QpHandle stuck_;
  Address far_stuck_;
  AhHandle handle_;  // of the other process, for datagrams
};
INSTANTIATE_TEST_SUITE_P(Each, BesideOneWithoutAReceive,
                         testing::Combine(every_setting(), testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                                          testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD)),
                         [](const auto& info) {
                           const auto transport = [](ibv_qp_type type) { return std::string(transport_name(type)); };
                           return name(std::get<0>(info.param)) + transport(std::get<2>(info.param)) + "Beside" +
                                  transport(std::get<1>(info.param));
                         });

TEST_P(BesideOneWithoutAReceive, EveryMessageArrives) {
  constexpr uint64_t kStuckMessages = 16;
  const bool is_datagram = qp_->qp_type == IBV_QPT_UD;
  const uint32_t header = is_datagram ? kDatagramHeader : 0;
  const uint32_t longest = is_datagram ? kLongDatagram : kLong;
  for (uint64_t id = 0; id < kStuckMessages; ++id) {
    const unsigned flags = stuck_type() == IBV_QPT_RC && id + 1 == kStuckMessages ? IBV_SEND_SIGNALED : 0;
    EXPECT_EQ(conformance::post(stuck_.get(), {send(id, far_stuck_, kStuck, kShort, flags)}), kAllPosted);
  }
  for (uint64_t id = 100; id < 140; ++id) {
    const uint32_t length = id % 2 ? longest : kShort;
    far_->fill(kLive, header + longest, 1);
    ASSERT_EQ(far_->post_receive(0, id, {{kLive, header + longest}}), 0);
    EXPECT_EQ(post(send(id, far_address_, kLive, length, IBV_SEND_SIGNALED)), kAllPosted);
    ASSERT_EQ(next(), succeeded(id));
    expect_received(id, far_address_.qpn, header + length);
    EXPECT_EQ(far_->first_difference(kLive + header, length, kSeed, kLive), std::nullopt);
  }
  if (stuck_type() != IBV_QPT_RC) return;  // lost its messages
  for (uint64_t id = 0; id < kStuckMessages; ++id) ASSERT_EQ(far_->post_receive(1, id, {{kStuck, kShort}}), 0);
  for (uint64_t id = 0; id < kStuckMessages; ++id) expect_received(id, far_stuck_.qpn, kShort);
  EXPECT_EQ(next(), (Outcome{kStuckMessages - 1, IBV_WC_SUCCESS, stuck_->qp_num, false}));
}

}  // namespace
}  // namespace verbatim::conformance
