// SIGSTOP and SIGCONT of the peer at random moments of each kind of transfer: everything is done in the end, however
// few retries there are, and what is unreliable arrives too. VERBATIM_TEST_ALL=1: 10,000 stops.
#include <csignal>
#include <thread>

#include "conformance/support/storm.h"

namespace verbatim::conformance {
namespace {

// 2 ms in all; the stops are longer.
constexpr Wiring kImpatient{.access = kAccess, .timeout = 8, .retry_cnt = 1, .rnr_retry = 0};
constexpr int kLongestStop = 20'000;  // us

class StopStorm : public Storm {
 protected:
  // In a thread: stops it again and again, and lets it go on in the end.
  std::jthread stopper(pid_t pid, std::atomic<int>& stops) {
    return std::jthread([this, pid, &stops](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(random_moment(2000));
        EXPECT_EQ(kill(pid, SIGSTOP), 0);
        std::this_thread::sleep_for(random_moment(kLongestStop));
        EXPECT_EQ(kill(pid, SIGCONT), 0);
        ++stops;
      }
    });
  }

  void transfer_amid_stops(int wanted) {
    const QpHandle qp = create_queue_pair();
    Peer peer;
    ASSERT_NO_FATAL_FAILURE(meet(qp.get(), peer, kImpatient));
    const AhHandle handle = create_address_handle(peer);
    std::atomic<int> stops{0};
    const std::jthread stopping = stopper(peer.process->pid(), stops);
    while (stops < wanted && !HasFailure()) expect_transfers(qp.get(), peer, handle.get());
  }
};
INSTANTIATE_TEST_SUITE_P(Each, StopStorm, every_storm(), storm_name);

TEST_P(StopStorm, EverythingIsDoneInTheEnd) { transfer_amid_stops(times(10'000, 8)); }

TEST_P(StopStorm, IsNotNoticedByAThird) {
  beside_a_third([&] { transfer_amid_stops(test_everything() ? 50 : 2); });
}

}  // namespace
}  // namespace verbatim::conformance
