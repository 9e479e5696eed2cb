// A management datagram as anybody may send it: what is taken for valid means the same when it is written again.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <vector>

#include "wire/captured_mads.h"
#include "wire/cm_message.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::wire {
namespace {

void expect_the_same(std::span<const uint8_t> bytes) {
  const auto result = parse_cm(bytes);
  if (const Reason* const reason = std::get_if<Reason>(&result)) {
    if (*reason < Reason::mad_length || *reason > Reason::mad_field) abort();
    return;
  }
  const CmMessage& message = std::get<CmMessage>(result);
  const auto again = parse_cm(emit_cm(message));
  if (!std::holds_alternative<CmMessage>(again) || std::get<CmMessage>(again) != message) abort();
  if (text(message).find_first_of("\n\0", 0, 2) != std::string::npos) abort();
}

void expect_the_same_header(std::span<const uint8_t> bytes) {
  const auto result = parse_rdma_ip_cm_header(bytes);
  if (std::holds_alternative<Reason>(result)) return;
  std::array<uint8_t, kRdmaIpCmHeaderSize> emitted;
  emit_rdma_ip_cm_header(std::get<RdmaIpCmHeader>(result), emitted);
  const auto again = parse_rdma_ip_cm_header(emitted);
  if (!std::holds_alternative<RdmaIpCmHeader>(again) ||
      std::get<RdmaIpCmHeader>(again) != std::get<RdmaIpCmHeader>(result))
    abort();
}

// Few bytes that are nobody's message begin as one does.
Mad garbled(FuzzedDataProvider& input) {
  Mad mad = bytes_of(input.PickValueInArray(kCapturedMads));
  if (input.ConsumeBool()) mad[17] = input.ConsumeIntegralInRange<uint8_t>(0x10, 0x1a);
  const int changes = input.ConsumeIntegralInRange(0, 20);
  for (int i = 0; i < changes; ++i)
    mad[input.ConsumeIntegralInRange<size_t>(0, kMadSize - 1)] = input.ConsumeIntegral<uint8_t>();
  return mad;
}

}  // namespace
}  // namespace verbatim::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbatim::wire;
  FuzzedDataProvider input(data, size);
  expect_the_same(garbled(input));
  const std::vector<uint8_t> bytes = input.ConsumeRemainingBytes<uint8_t>();
  expect_the_same(bytes);
  expect_the_same_header(bytes);
  return 0;
}
