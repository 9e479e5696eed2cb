// Messages of the agent's protocol, drawn from a fuzzer's input.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/cm_protocol.h"
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

inline commands::Command any_command(FuzzedDataProvider& input) {
  using namespace commands;
  const auto number = [&] { return input.ConsumeIntegralInRange<uint64_t>(1, 8); };
  const auto here = [&] {
    return cm::Address::loopback(cm::Family::ipv4, input.ConsumeIntegralInRange<uint16_t>(7001, 7003));
  };
  switch (input.ConsumeIntegralInRange(0, 11)) {
    case 0:
      return OpenChannel{};
    case 1:
      return TakeRequest{{number()}};
    case 2:
      return Establish{{number()}};
    case 3: {
      const uint64_t channel = number();
      return Create{{channel << 32 | number()}, {channel}};
    }
    case 4:
      return Destroy{{number()}, {number()}, input.ConsumeIntegralInRange<uint32_t>(0, 3)};
    case 5:
      return Migrate{{number()}, {number()}, input.ConsumeIntegralInRange<uint32_t>(0, 3), {number()}};
    case 6:
      return Bind{{number()}, here()};
    case 7:
      return ResolveAddress{{number()}, {{}, here(), Duration::milliseconds(10), false}};
    case 8:
      return Listen{{number()}, 2};
    case 9:
      return Connect{{number()}, {.parameters = {.qpn = {1}}}};
    case 10:
      return Accept{{number()}, {.parameters = {.qpn = {2}}}};
    default:
      return Query{{number()}};
  }
}

inline commands::Answer any_answer(FuzzedDataProvider& input) {
  using namespace commands;
  const auto number = [&] { return input.ConsumeIntegralInRange<uint64_t>(1, 8); };
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      return Failure{ENOENT};
    case 1:
      return cm::Channel{number()};
    case 2:
      return cm::IdView{.channel = {number()}, .path = cm::Path{}, .qp = cm::QpAttributes{}};
    case 3:
      return Ended{input.ConsumeIntegral<uint32_t>()};
    default:
      return Nothing{};
  }
}

inline commands::Taken any_event(FuzzedDataProvider& input) {
  return {.event = {.id = {input.ConsumeIntegral<uint64_t>()}, .status = input.ConsumeIntegral<int>()},
          .view = input.ConsumeBool() ? std::optional(cm::IdView{.path = cm::Path{}}) : std::nullopt};
}

inline Frame any_message_to_agent(FuzzedDataProvider& input) {
  const uint64_t start_time = input.ConsumeBool() ? read_own_facts().value().start_time : any_incarnation(input);
  const pid_t pid = input.ConsumeBool() ? getpid() : input.ConsumeIntegralInRange<pid_t>(1, 3);
  switch (input.ConsumeIntegralInRange(0, 6)) {
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
    case 4:
      return encode(ToAgent(Manage{start_time}));
    case 5:
      return encode(any_command(input));
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
  const size_t at = input.ConsumeIntegralInRange<size_t>(0, frame.size / 8 - 1) * 8;
  memcpy(frame.bytes.data() + at, &word, sizeof word);
  return frame;
}

}  // namespace verbatim::agent
