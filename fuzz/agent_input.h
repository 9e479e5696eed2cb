// Messages of the agent's protocol, drawn from a fuzzer's input.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include "agent/protocol.h"

namespace verbatim::agent {

// Few, so that messages are about the same ones.
inline uint16_t any_slot(FuzzedDataProvider& input) { return input.ConsumeIntegralInRange<uint16_t>(1, 12); }
inline uint64_t any_incarnation(FuzzedDataProvider& input) { return input.ConsumeIntegralInRange<uint64_t>(1, 8); }

inline SlotList any_slots(FuzzedDataProvider& input) {
  SlotList list;
  list.count = input.ConsumeIntegralInRange<uint64_t>(1, 3);
  const uint16_t first = any_slot(input);
  for (uint16_t i = 0; i < list.count; ++i) list.slots[i] = first + i;
  return list;
}

// Now and then with eight bytes that are none of it.
inline Frame maybe_garbled(FuzzedDataProvider& input, Frame frame) {
  if (input.ConsumeIntegralInRange(0, 7) != 0) return frame;
  const uint64_t word = input.ConsumeIntegral<uint64_t>();
  const size_t at = input.ConsumeIntegralInRange<size_t>(0, kMaxFrame / 8 - 1) * 8;
  memcpy(frame.bytes.data() + at, &word, sizeof word);
  return frame;
}

}  // namespace verbatim::agent
