// Nothing that a peer writes makes us crash, hang, or touch a byte that was not granted to it.
#include "support/lying_peer.h"

#include <gtest/gtest.h>

#include <random>

namespace verbatim::model {
namespace {

using testing_support::LyingPeer;

struct Kind {
  QueuePairType type;
  bool shares;
};

class Lies : public testing::TestWithParam<Kind> {};

TEST_P(Lies, HarmNobody) {
  constexpr int kPeers = 40, kActs = 300;
  for (uint64_t seed = 1; seed <= kPeers; ++seed) {
    std::mt19937_64 random(seed);
    LyingPeer peer(GetParam().type, GetParam().shares, [&](uint64_t limit) { return random() % limit; });
    for (int i = 0; i < kActs; ++i) peer.act();
    ASSERT_TRUE(peer.kept_out()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Lies,
                         testing::Values(Kind{QueuePairType::rc, false}, Kind{QueuePairType::rc, true},
                                         Kind{QueuePairType::uc, false}, Kind{QueuePairType::ud, false}),
                         [](const auto& info) {
                           const char* const type = info.param.type == QueuePairType::rc   ? "Rc"
                                                    : info.param.type == QueuePairType::uc ? "Uc"
                                                                                           : "Ud";
                           return std::string(type) + (info.param.shares ? "Shared" : "");
                         });

}  // namespace
}  // namespace verbatim::model
