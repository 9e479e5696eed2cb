// A process of the same user that writes nonsense over all that it shows its peers, while they transfer with it: no
// crash, no byte outside what it was granted, a way out of each wait, and a third process notices nothing.
// VERBATIM_TEST_ALL=1: 200 rounds of each kind.
#include <random>
#include <thread>

#include "conformance/support/storm.h"

namespace verbatim::conformance {
namespace {

constexpr uint8_t kUntouched = 0xa5;

class LyingProcess : public Storm {
 protected:
  static constexpr size_t kGranted = 4096;

  // Nothing that the liar owes us is waited for longer: then the queue pair is led to ERR, and all of it comes back.
  void expect_an_end(ibv_qp* qp, uint32_t posted) {
    constexpr auto kPatience = std::chrono::milliseconds(100);
    uint32_t completed = 0;
    while (completed < posted && side_.poll(kPatience)) ++completed;
    EXPECT_EQ(to_state(qp, IBV_QPS_ERR), 0);
    for (; completed < posted; ++completed) ASSERT_TRUE(side_.poll()) << posted - completed << " never complete";
    EXPECT_EQ(to_state(qp, IBV_QPS_RESET), 0);
    while (side_.poll(std::chrono::nanoseconds(0))) {
    }
  }

  void transfer_amid_lies() {
    const QpHandle qp = create_queue_pair();
    Peer liar;
    ASSERT_NO_FATAL_FAILURE(meet(qp.get(), liar, kImpatient));
    const AhHandle handle = create_address_handle(liar);
    // What the liar's queue pair may write to, should it be made to.
    std::vector<uint8_t> victim(3 * kGranted, kUntouched);
    const MrHandle granted(ibv_reg_mr(side_.pd(), victim.data() + kGranted, kGranted, static_cast<int>(kAccess)));
    ASSERT_TRUE(granted);
    liar.process->begin_scribbling();
    const int rounds = test_everything() ? 200 : 6;
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      uint32_t posted = 0;
      for (uint64_t id = 0; id < kInFlight; ++id) {
        ibv_sge sge{reinterpret_cast<uint64_t>(victim.data() + kGranted), kGranted, granted->lkey};
        ibv_recv_wr receive{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
        ibv_recv_wr* bad = nullptr;
        if (kind().type != IBV_QPT_XRC_SEND) posted += ibv_post_recv(qp.get(), &receive, &bad) == 0;
        posted += post(qp.get(), {request(id, liar, handle.get())}) == kAllPosted;
      }
      ASSERT_NO_FATAL_FAILURE(expect_an_end(qp.get(), posted));
      EXPECT_EQ(connect(qp.get(), liar.address, kImpatient), 0);
    }
    const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
    EXPECT_TRUE(std::all_of(victim.begin(), victim.begin() + kGranted, untouched));
    EXPECT_TRUE(std::all_of(victim.end() - kGranted, victim.end(), untouched));
    liar.process->kill_liar();
  }

  static constexpr Wiring kImpatient{.access = kAccess, .timeout = 8, .retry_cnt = 1, .rnr_retry = 1};
};
INSTANTIATE_TEST_SUITE_P(Each, LyingProcess, every_storm(), storm_name);

TEST_P(LyingProcess, HarmsNobody) {
  beside_a_third([&] { transfer_amid_lies(); });
  // And one that does not lie is met as ever.
  const QpHandle qp = create_queue_pair();
  Peer peer;
  ASSERT_NO_FATAL_FAILURE(meet(qp.get(), peer));
  expect_transfers(qp.get(), peer, create_address_handle(peer).get());
}

}  // namespace
}  // namespace verbatim::conformance
