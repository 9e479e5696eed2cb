// A peer that writes whatever it likes into its segment and its lanes, while we do this and that: it reaches no byte
// that was not granted.
#include <fuzzer/FuzzedDataProvider.h>

#include "expectations.h"
#include "support/lying_peer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbatim;
  fuzz::end_at_the_first_failure();
  FuzzedDataProvider input(data, size);
  const QueuePairType type = input.PickValueInArray({QueuePairType::rc, QueuePairType::uc, QueuePairType::ud});
  const bool shares = type == QueuePairType::rc && input.ConsumeBool();
  testing_support::LyingPeer peer(type, shares,
                                  [&](uint64_t limit) { return input.ConsumeIntegralInRange<uint64_t>(0, limit - 1); });
  while (input.remaining_bytes() > 0) peer.act();
  EXPECT_TRUE(peer.kept_out());
  return 0;
}
