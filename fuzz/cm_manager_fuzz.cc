// Messages that anybody may send to the communication manager, amid programs that do whatever they like: it says why it
// has no use for one, and when everybody has gone, nothing is left.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <vector>

#include "cm/manager.h"
#include "wire/captured_mads.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::cm {
namespace {

constexpr Owner kOwner{1};
constexpr Channel kChannel{1};
constexpr uint16_t kPort = 7174;

// IPv4-mapped, in 192.0.2.0/24.
Gid gid(uint8_t host) { return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, host}}; }
Address address(uint8_t host, uint16_t port) { return {.family = Family::ipv4, .ip = gid(host), .port = port}; }

class Scene {
 public:
  explicit Scene(FuzzedDataProvider& input) : input_(input), manager_({.ca_guid = 1, .seed = 1}) {
    manager_.set_addresses({{gid(1), 2, 3, 2}});
  }

  void run() {
    while (input_.remaining_bytes() > 0) {
      act();
      collect();
    }
    manager_.on_owner_death(now_, kOwner);
    while (manager_.next_deadline() != kNever) {
      manager_.on_deadline(now_ = manager_.next_deadline());
      collect();
    }
    if (manager_.population() != Manager::Population{}) abort();
  }

 private:
  void act() {
    switch (input_.ConsumeIntegralInRange(0, 3)) {
      case 0:
        return command();
      case 1:
        if (manager_.next_deadline() == kNever) return;
        return manager_.on_deadline(now_ = manager_.next_deadline());
      default:
        return hear();
    }
  }

  void command() {
    if (ids_.empty() || input_.ConsumeIntegralInRange(0, 5) == 0) {
      const bool is_datagram = input_.ConsumeBool();
      ids_.push_back({++last_handle_});
      const Status created =
          manager_.create(kOwner, ids_.back(), kChannel, is_datagram ? PortSpace::udp : PortSpace::tcp,
                          is_datagram ? QpType::ud : QpType::rc, 0);
      if (!created.ok()) abort();
      if (input_.ConsumeBool()) static_cast<void>(manager_.bind(kOwner, ids_.back(), address(1, kPort), false));
      if (input_.ConsumeBool()) static_cast<void>(manager_.listen(now_, kOwner, ids_.back(), 3));
      return;
    }
    const IdHandle id = ids_[input_.ConsumeIntegralInRange<size_t>(0, ids_.size() - 1)];
    const Offer offer{.parameters = {.qpn = Qpn{input_.ConsumeIntegralInRange<uint32_t>(1, 8)}}};
    switch (input_.ConsumeIntegralInRange(0, 8)) {
      case 0: {
        const uint8_t host = input_.ConsumeIntegralInRange<uint8_t>(1, 2);
        static_cast<void>(manager_.resolve_address(now_, kOwner, id,
                                                   {{}, address(host, kPort), Duration::milliseconds(1000), false}));
        static_cast<void>(manager_.resolve_route(kOwner, id));
        return static_cast<void>(manager_.connect(now_, kOwner, id, offer));
      }
      case 1:
        return static_cast<void>(manager_.accept(now_, kOwner, id, offer));
      case 2:
        return static_cast<void>(manager_.establish(now_, kOwner, id));
      case 3:
        return static_cast<void>(manager_.reject(now_, kOwner, id, wire::RejectReason::consumer_reject, {}));
      case 4:
        return static_cast<void>(manager_.disconnect(now_, kOwner, id));
      case 5:
        return static_cast<void>(manager_.destroy(now_, kOwner, id));
      case 6:
        return static_cast<void>(manager_.take_request(kOwner, id));
      default:
        if (const auto event = manager_.take_event(kChannel); event && input_.ConsumeBool())
          manager_.put_back(kOwner, kChannel, {&*event, 1});
        else if (event && event->type == EventType::connect_request)
          ids_.push_back(event->id);
    }
  }

  // A datagram like those that were seen, with what names a connection taken from what the manager has said.
  void hear() {
    wire::Mad mad = wire::bytes_of(input_.PickValueInArray(wire::kCapturedMads));
    if (input_.ConsumeBool()) mad[17] = input_.ConsumeIntegralInRange<uint8_t>(0x10, 0x1a);
    constexpr size_t kLocalId = 24, kRemoteId = 28;
    put(mad, kLocalId, input_.ConsumeIntegralInRange<uint32_t>(1, 4));
    if (!said_.empty() && mad[17] != 0x10)
      put(mad, mad[17] == 0x18 ? kLocalId : kRemoteId,
          said_[input_.ConsumeIntegralInRange<size_t>(0, said_.size() - 1)]);
    // A request that names its sender as it should.
    if (input_.ConsumeBool() && (mad[17] == 0x10 || mad[17] == 0x17)) {
      const size_t at = mad[17] == 0x10 ? 24 + 140 : 24 + 16;
      wire::emit_rdma_ip_cm_header({4, 5, gid(2), gid(1)},
                                   std::span(mad).subspan(at).first<wire::kRdmaIpCmHeaderSize>());
      mad[24 + 14] = kPort >> 8, mad[24 + 15] = kPort & 0xff;
    }
    const int changes = input_.ConsumeIntegralInRange(0, 3);
    for (int i = 0; i < changes; ++i)
      mad[input_.ConsumeIntegralInRange<size_t>(24, wire::kMadSize - 1)] = input_.ConsumeIntegral<uint8_t>();
    const Gid from = input_.ConsumeIntegralInRange(0, 9) ? gid(2) : gid(3);
    manager_.on_mad(now_, {gid(1), from}, mad);
  }
  static void put(wire::Mad& mad, size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) mad[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  }

  // What it sends can be read; what it sends to itself arrives.
  void collect() {
    while (const auto question = manager_.poll_question())
      manager_.on_answer(question->id, Route{.source = {gid(1), 2, 3, 2}});
    while (const auto mad = manager_.poll_mad()) {
      const auto parsed = wire::parse_cm(mad->bytes);
      if (!std::holds_alternative<wire::CmMessage>(parsed)) abort();
      if (said_.size() < 1000) said_.push_back(local_id(std::get<wire::CmMessage>(parsed)));
      if (mad->address.remote == gid(1)) manager_.on_mad(now_, {gid(1), mad->address.local}, mad->bytes);
    }
  }
  static uint32_t local_id(const wire::CmMessage& message) {
    return std::visit(
        [](const auto& body) {
          if constexpr (requires { body.request_id; })
            return body.request_id.value;
          else
            return body.local_communication_id.value;
        },
        message.body);
  }

  FuzzedDataProvider& input_;
  Manager manager_;
  Instant now_{1};
  std::vector<IdHandle> ids_;
  uint64_t last_handle_ = 0;
  std::vector<uint32_t> said_;
};

}  // namespace
}  // namespace verbatim::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  verbatim::cm::Scene(input).run();
  return 0;
}
