// kill -9 of the peer at a random moment of each kind of transfer, again and again, in one process that survives it:
// every request and receive completes, and nothing is left of the dead. VERBATIM_TEST_ALL=1: 10,000 of them.
#include <csignal>
#include <thread>

#include "conformance/support/storm.h"

namespace verbatim::conformance {
namespace {

class DeathStorm : public Storm {
 protected:
  // In a thread: kills it within the first milliseconds.
  std::jthread killer(Peer& peer) {
    return std::jthread([&peer, moment = random_moment(3000)] {
      std::this_thread::sleep_for(moment);
      peer.process->kill();
      peer.dead = true;
    });
  }

  // Keeps requests under way until one fails, or until the peer is dead where none does.
  void send_until_it_ends(ibv_qp* qp, Peer& peer) {
    post_receives(peer);
    const AhHandle handle = create_address_handle(peer);
    std::jthread kills = killer(peer);
    uint64_t posted = 0, completed = 0;
    bool failed = false;
    const auto take = [&] {
      const std::optional<ibv_wc> completion = side_.poll();
      ASSERT_TRUE(completion) << posted - completed << " requests never complete";
      ASSERT_EQ(completion->wr_id, completed++);
      if (completion->status == IBV_WC_SUCCESS) {
        ASSERT_FALSE(failed) << "a success after an error";
        return;
      }
      ASSERT_TRUE(kind().reliable()) << ibv_wc_status_str(completion->status);
      ASSERT_EQ(completion->status, failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR)
          << ibv_wc_status_str(completion->status);
      failed = true;
    };
    while (!failed && !HasFatalFailure() && (kind().reliable() || !peer.dead)) {
      while (posted - completed < kInFlight && !HasFailure())
        ASSERT_EQ(post(qp, {request(posted++, peer, handle.get())}), kAllPosted);
      take();
    }
    while (completed < posted && !HasFatalFailure()) take();
    EXPECT_EQ(state_of(qp), kind().reliable() ? IBV_QPS_ERR : IBV_QPS_RTS);
    kills.join();
    EXPECT_FALSE(side_.poll(std::chrono::nanoseconds(0)));
  }

  // The peer sends as long as it lives. What it has sent arrives, and the rest is flushed.
  void receive_until_it_ends(ibv_qp* qp, Peer& peer) {
    ASSERT_NO_FATAL_FAILURE(post_receives(qp));
    for (uint64_t id = 0; id < kInFlight; ++id) ASSERT_EQ(post_from(peer, id), 0);
    std::jthread kills = killer(peer);
    std::optional<ibv_wc> completion;
    uint64_t received = 0;
    while (!peer.dead) {
      completion = side_.poll(std::chrono::microseconds(100));
      if (!completion) continue;
      ASSERT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
      ASSERT_EQ(completion->wr_id, received++);
    }
    kills.join();
    ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
    for (bool flushed = false; received < kInFlight; ++received) {
      completion = side_.poll();
      ASSERT_TRUE(completion) << kInFlight - received << " receives never complete";
      ASSERT_EQ(completion->wr_id, received);
      flushed |= completion->status == IBV_WC_WR_FLUSH_ERR;
      ASSERT_EQ(completion->status, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    }
  }

  void transfer_until_death(bool has_child = false) {
    const QpHandle qp = create_queue_pair();
    Peer peer;
    ASSERT_NO_FATAL_FAILURE(meet(qp.get(), peer));
    const pid_t child = has_child ? peer.process->fork_child() : 0;
    // What is no process is none to kill.
    ASSERT_TRUE(!has_child || child > 1);
    if (kind().receives)
      receive_until_it_ends(qp.get(), peer);
    else
      send_until_it_ends(qp.get(), peer);
    if (!has_child) return;
    EXPECT_EQ(kill(child, SIGKILL), 0) << "the child died with its parent";
  }
};
INSTANTIATE_TEST_SUITE_P(Each, DeathStorm, every_storm(), storm_name);

TEST_P(DeathStorm, LeavesNothingBehindAndNobodyWaiting) {
  transfer_until_death();
  expect_soon(segments, 1, "segments");
  const size_t before = descriptors();
  // The child of each other one lives on.
  const int rounds = times(10'000, 8);
  for (int round = 1; round < rounds && !HasFailure(); ++round) transfer_until_death(round % 2 == 1);
  expect_soon(segments, 1, "segments");
  expect_soon(descriptors, before, "descriptors");
}

TEST_P(DeathStorm, IsNotNoticedByAThird) {
  beside_a_third([&] {
    for (int round = 0; round < (test_everything() ? 50 : 2) && !HasFailure(); ++round) transfer_until_death();
  });
}

}  // namespace
}  // namespace verbatim::conformance
