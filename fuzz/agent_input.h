// Messages of the agent's protocol, drawn from a fuzzer's input.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <cstring>

#include "agent/process.h"
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

inline Frame any_message_to_agent(FuzzedDataProvider& input) {
  const uint64_t start_time = input.ConsumeBool() ? read_own_facts().value().start_time : any_incarnation(input);
  const pid_t pid = input.ConsumeBool() ? getpid() : input.ConsumeIntegralInRange<pid_t>(1, 3);
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      return encode(ToAgent(Hello{.incarnation = any_incarnation(input),
                                  .start_time = start_time,
                                  .segment_size = 4096,
                                  .slots = any_slots(input)}));
    case 1:
      return encode(ToAgent(AddSlot{any_slot(input)}));
    case 2:
      return encode(ToAgent(Introduce{any_slot(input)}));
    case 3:
      return encode(ToAgent(KnownPeer{any_incarnation(input), start_time, pid}));
    default:
      return encode(ToAgent(IntroduceEveryone{}));
  }
}

inline Frame any_message_to_member(FuzzedDataProvider& input) {
  const pid_t pid = input.ConsumeIntegralInRange<pid_t>(1, 5);
  switch (input.ConsumeIntegralInRange(0, 6)) {
    case 0:
      return encode(ToMember(Peer{.incarnation = any_incarnation(input),
                                  .start_time = any_incarnation(input),
                                  .segment_size = 4096,
                                  .pid = pid,
                                  .knows_us = input.ConsumeBool(),
                                  .slots = any_slots(input)}));
    case 1:
      return encode(ToMember(PeerSlot{any_incarnation(input), any_slot(input)}));
    case 2:
      return encode(ToMember(Dead{any_incarnation(input), pid}));
    case 3:
      return encode(ToMember(Everyone{}));
    case 4:
      return encode(ToMember(Unowned{any_slot(input)}));
    case 5:
      return encode(ToMember(Refused{input.ConsumeIntegral<uint32_t>()}));
    default:
      return encode(ToMember(Welcome{}));
  }
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
