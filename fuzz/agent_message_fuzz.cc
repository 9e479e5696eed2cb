// A message of the agent's protocol, as anybody may send it: what is taken for valid is encoded as it came.
#include <cstdlib>
#include <cstring>

#include "agent/protocol.h"

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
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  const size_t descriptors = data[0] % 4;
  expect_the_same(decode_to_agent(bytes, descriptors), bytes);
  expect_the_same(decode_to_member(bytes, descriptors), bytes);
  return 0;
}
