// A device of a LocalProcess with time, wake-ups and addresses under the test's control, and queue pairs on it. Two of
// them that are introduced make two ends in one process. Test code only.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "model/async_events.h"
#include "model/completion_queue.h"
#include "model/device.h"
#include "model/memory_region.h"
#include "model/protection_domain.h"
#include "model/queue_pair.h"
#include "support/fake_clock.h"
#include "support/local_process.h"

namespace verbatim::testing_support {

inline Gid gid_of(const char* text) {
  Gid value;
  inet_pton(AF_INET6, text, value.bytes.data());
  return value;
}
inline const Gid kHostGid = gid_of("::ffff:10.0.0.1");

class CountingWaker final : public model::Waker {
 public:
  void wake() override { count_.fetch_add(1, std::memory_order_relaxed); }
  int count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> count_{0};
};

// One interface; its addresses are the test's to change while no other thread reads them.
class FakeAddresses final : public model::AddressSource {
 public:
  std::vector<model::GidInterface> interfaces() override {
    pthread_testcancel();  // as when the kernel is asked
    return {{.ifindex = 2, .mtu = 9000, .gids = gids}};
  }
  std::vector<Gid> gids{kHostGid};
};

class TestDevice {
 public:
  // `waker`: where wake-ups go; the counting one when there is none. It outlives the device.
  explicit TestDevice(uint16_t first_slot, model::DeviceAttributes attributes = {}, model::Waker* waker = nullptr)
      : process(first_slot),
        device({process.adapter(), process.peers(), clock, waker ? *waker : counting_waker, addresses}, attributes),
        events(EventCounter::create().take()),
        pd(model::ProtectionDomain::create(device).take()) {}

  LocalProcess process;
  FakeClock clock;
  CountingWaker counting_waker;
  FakeAddresses addresses;
  model::Device device;
  model::AsyncEvents events;
  std::unique_ptr<model::ProtectionDomain> pd;

  std::unique_ptr<model::CompletionQueue> make_cq(int entries = 16) {
    return model::CompletionQueue::create(device, events, nullptr, entries).take();
  }
  std::unique_ptr<model::MemoryRegion> register_memory(void* address, uint64_t length, uint32_t access) {
    const auto start = reinterpret_cast<uint64_t>(address);
    return model::MemoryRegion::register_memory(device, *pd, {start, length, start, access}).take();
  }
  // What happens next, or nothing.
  std::vector<model::AsyncEvent> take_events() {
    std::vector<model::AsyncEvent> result;
    for (;;) {
      Result<model::AsyncEvent> event = events.next();
      if (!event.ok()) return result;
      if (event.value().account) events.acknowledge(event.value().account);
      result.push_back(event.take());
    }
  }
};

inline std::vector<Completion> poll(model::CompletionQueue& queue, int most = 1000) {
  std::vector<Completion> result;
  const int count = queue.poll(most, [&](const Completion& completion) { result.push_back(completion); });
  EXPECT_EQ(static_cast<size_t>(count), result.size());
  return result;
}

// ---- the usual way of a queue pair to RTS ----

inline constexpr uint32_t kEverything = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;
inline constexpr uint32_t kInitMask =
    model::attribute::kState | model::attribute::kPkeyIndex | model::attribute::kPortNumber | model::attribute::kAccess;
inline constexpr uint32_t kRtrMask = model::attribute::kState | model::attribute::kAddress |
                                     model::attribute::kPathMtu | model::attribute::kDestination |
                                     model::attribute::kReceivePsn | model::attribute::kResponderDepth |
                                     model::attribute::kMinRnrTimer;
inline constexpr uint32_t kRtsMask = model::attribute::kState | model::attribute::kTimeout |
                                     model::attribute::kRetryCount | model::attribute::kRnrRetry |
                                     model::attribute::kSendPsn | model::attribute::kInitiatorDepth;

// Attributes with which every transition succeeds. timeout 10 and retry_count 1: patience of 2 * 4.194304 ms.
inline model::QueuePairAttributes good_attributes(Qpn destination) {
  model::QueuePairAttributes attributes;
  attributes.destination = destination;
  attributes.access = kEverything;
  attributes.address = {.is_global = true, .dgid = kHostGid, .port = 1};
  attributes.port = 1;
  attributes.initiator_depth = attributes.responder_depth = 1;
  attributes.timeout = 10;
  attributes.retry_count = 1;
  return attributes;
}
inline constexpr Duration kPatience = Duration::nanoseconds(2 * 4096 * 1024);
// While nobody knows whose the destination is.
inline constexpr Duration kPatienceWithStrangers = Duration::nanoseconds(1'000'000'000 + kPatience.ns);

inline Status modify(model::QueuePair& queue_pair, QueuePairState state, model::QueuePairAttributes attributes = {},
                     uint32_t mask = 0) {
  attributes.state = state;
  return queue_pair.modify(attributes, mask | model::attribute::kState);
}
inline Status to_init(model::QueuePair& queue_pair, Qpn destination) {
  return modify(queue_pair, QueuePairState::init, good_attributes(destination), kInitMask);
}
inline Status to_rtr(model::QueuePair& queue_pair, Qpn destination) {
  return modify(queue_pair, QueuePairState::rtr, good_attributes(destination), kRtrMask);
}
inline Status to_rts(model::QueuePair& queue_pair, Qpn destination) {
  return modify(queue_pair, QueuePairState::rts, good_attributes(destination), kRtsMask);
}
inline void connect(model::QueuePair& queue_pair, Qpn destination) {
  ASSERT_TRUE(to_init(queue_pair, destination).ok());
  ASSERT_TRUE(to_rtr(queue_pair, destination).ok());
  ASSERT_TRUE(to_rts(queue_pair, destination).ok());
}

}  // namespace verbatim::testing_support
