// A message of the agent's protocol, as anybody may send it: what is taken for valid is encoded as it came.
#include <cstdlib>
#include <cstring>

#include "agent_input.h"

namespace verbatim::agent {
namespace {

template <class Message>
void expect_the_same(const Result<Message>& message, std::span<const std::byte> bytes) {
  if (!message.ok()) {
    if (message.error() != EPROTO && message.error() != EPROTONOSUPPORT) abort();
    return;
  }
  const Frame frame = encode(message.value());
  if (frame.size != bytes.size() || memcmp(frame.bytes.data(), bytes.data(), bytes.size()) != 0) abort();
}

}  // namespace
}  // namespace verbatim::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbatim::agent;
  FuzzedDataProvider input(data, size);
  const size_t descriptors = input.ConsumeIntegralInRange<size_t>(0, 3);
  const auto expect_round_trips = [&](std::span<const std::byte> bytes) {
    expect_the_same(decode_to_agent(bytes, descriptors), bytes);
    expect_the_same(decode_to_member(bytes, descriptors), bytes);
    expect_the_same(decode_command(bytes, descriptors), bytes);
    expect_the_same(decode_answer(bytes, descriptors), bytes);
    expect_the_same(decode_event(bytes), bytes);
  };
  // Few bytes that are nobody's message begin as one does.
  expect_round_trips(maybe_garbled(input, any_message_to_agent(input)).view());
  expect_round_trips(maybe_garbled(input, any_message_to_member(input)).view());
  expect_round_trips(maybe_garbled(input, encode(any_command(input))).view());
  expect_round_trips(maybe_garbled(input, encode(any_answer(input))).view());
  expect_round_trips(maybe_garbled(input, encode(any_event(input))).view());
  expect_round_trips(input.ConsumeRemainingBytes<std::byte>());
  return 0;
}
