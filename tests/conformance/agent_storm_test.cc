// kill -9 of the agent at random moments while processes meet, transfer, and end: nobody notices, and nothing is left.
// VERBATIM_TEST_ALL=1: 10,000 of them.
#include <csignal>
#include <thread>

#include "conformance/support/agent.h"
#include "conformance/support/storm.h"

namespace verbatim::conformance {
namespace {

class AgentStorm : public Storm {
 protected:
  // In a thread: kills each one that there is, as soon as it has lived for some milliseconds.
  std::jthread killer(std::atomic<int>& deaths) {
    return std::jthread([this, &deaths](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(random_moment(50'000));
        for (const pid_t agent : agents()) deaths += kill(agent, SIGKILL) == 0;
      }
    });
  }

  void meet_and_transfer() {
    const QpHandle qp = create_queue_pair();
    Peer peer;
    ASSERT_NO_FATAL_FAILURE(meet(qp.get(), peer));
    const AhHandle handle = create_address_handle(peer);
    for (int times = 0; times < 2 && !HasFailure(); ++times) expect_transfers(qp.get(), peer, handle.get());
  }
};
INSTANTIATE_TEST_SUITE_P(Each, AgentStorm, every_storm(), storm_name);

TEST_P(AgentStorm, IsNotNoticed) {
  meet_and_transfer();
  expect_soon(segments, 1, "segments");
  const size_t before = descriptors();
  const int wanted = times(10'000, 4);
  std::atomic<int> deaths{0};
  {
    const std::jthread killing = killer(deaths);
    while (deaths < wanted && !HasFailure()) meet_and_transfer();
  }
  meet_and_transfer();
  expect_soon(segments, 1, "segments");
  expect_soon(descriptors, before, "descriptors");
  expect_soon([] { return agents().size(); }, 1, "agents");
}

TEST_P(AgentStorm, IsNotNoticedByAThird) {
  std::atomic<int> deaths{0};
  beside_a_third([&] {
    const std::jthread killing = killer(deaths);
    while (deaths < (test_everything() ? 50 : 2) && !HasFailure()) meet_and_transfer();
  });
}

}  // namespace
}  // namespace verbatim::conformance
