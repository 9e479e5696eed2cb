// Two processes with queue pairs of any type and shared receive queues, for tests of messages. Nothing moves by itself:
// poll_b() serves what a has sent, poll_a() takes the answers. Test code only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/shared_receive_queue.h"
#include "support/queue_pair_ends.h"

namespace verbatim::testing_support {

inline constexpr uint32_t kQkey = 0x1234;
// min_rnr_timer 12 is 640 us (IBTA volume 1, table 45).
inline constexpr uint8_t kReceiverTimer = 12;
inline constexpr Duration kReceiverPause = Duration::nanoseconds(640'000);

// kEverything, and atomics; rnr_retry 3.
inline model::QueuePairAttributes message_attributes(Qpn destination) {
  model::QueuePairAttributes attributes = good_attributes(destination);
  attributes.access = kEverything | access::kRemoteAtomic;
  attributes.qkey = kQkey;
  attributes.min_rnr_timer = kReceiverTimer;
  attributes.rnr_retry = 3;
  return attributes;
}

// From RESET to `state`: INIT, RTR or RTS.
inline void bring(model::QueuePair& queue_pair, const model::QueuePairAttributes& attributes,
                  QueuePairState state = QueuePairState::rts) {
  using namespace model::attribute;
  uint32_t init = kInitMask, rtr = kRtrMask, rts = kRtsMask;
  switch (queue_pair.type()) {
    case QueuePairType::rc:
      break;
    case QueuePairType::uc:
      rtr &= ~(kResponderDepth | kMinRnrTimer);
      rts = kState | kSendPsn;
      break;
    case QueuePairType::ud:
      init = kState | kPkeyIndex | kPortNumber | model::attribute::kQkey;
      rtr = kState;
      rts = kState | kSendPsn;
      break;
    case QueuePairType::xrc_send:
      rtr &= ~(kResponderDepth | kMinRnrTimer);
      break;
    case QueuePairType::xrc_receive:
      rts = kState | kTimeout | kSendPsn;
      break;
  }
  ASSERT_TRUE(modify(queue_pair, QueuePairState::init, attributes, init).ok());
  if (state == QueuePairState::init) return;
  ASSERT_TRUE(modify(queue_pair, QueuePairState::rtr, attributes, rtr).ok());
  if (state == QueuePairState::rtr) return;
  ASSERT_TRUE(modify(queue_pair, QueuePairState::rts, attributes, rts).ok());
}

struct MessageEnds : QueuePairEnds {
  // Where b's receives are, unless a test says otherwise.
  static constexpr uint32_t kReceiveBytes = 32 * 1024;
  static constexpr model::QueuePairCapabilities kCapabilities{16, 16, 8, 8, 64};

  std::unique_ptr<model::SharedReceiveQueue> shared;

  explicit MessageEnds(QueuePairType type = QueuePairType::rc, bool shares = false) {
    remake(a, type);
    remake(b, type, shares);
  }
  // The queue pair's handle is the end, the shared receive queue's `shared`.
  void remake(End& end, QueuePairType type, bool shares = false) {
    end.qp.reset();
    if (shares) shared = make_shared_queue(end);
    end.qp = model::QueuePair::create(end.side.device, end.side.events,
                                      {.type = type,
                                       .pd = end.side.pd.get(),
                                       .send_cq = end.cq.get(),
                                       .receive_cq = end.cq.get(),
                                       .shared_receives = shares ? shared.get() : nullptr,
                                       .capabilities = kCapabilities,
                                       .handle = &end})
                 .take();
  }
  std::unique_ptr<model::SharedReceiveQueue> make_shared_queue(End& end) {
    return model::SharedReceiveQueue::create(end.side.device, end.side.events,
                                             {.pd = *end.side.pd, .max_wr = 16, .max_sge = 8, .handle = &shared})
        .take();
  }

  model::QueuePairAttributes a_attributes() { return message_attributes(b.qp->qpn()); }
  model::QueuePairAttributes b_attributes() { return message_attributes(a.qp->qpn()); }
  void bring_both() {
    bring(*b.qp, b_attributes());
    bring(*a.qp, a_attributes());
  }

  SendWork send(uint64_t id, uint32_t length = 8) { return a.work(b, SendOpcode::send, id, length); }
  SendWork write_with_imm(uint64_t id, uint32_t length = 8) {
    SendWork work = a.work(b, SendOpcode::rdma_write_with_imm, id, length);
    work.immediate = 0x11223344;
    return work;
  }
  SendWork datagram(uint64_t id, uint32_t length = 8, uint32_t qkey = kQkey) {
    SendWork work = send(id, length);
    work.operands = DatagramTarget{.address = {.source = kHostGid, .destination = kHostGid, .pd = a.side.pd->id()},
                                   .qpn = b.qp->qpn(),
                                   .qkey = qkey};
    return work;
  }
  SendWork fetch_add(uint64_t id, uint64_t added) {
    SendWork work = a.work(b, SendOpcode::atomic_fetch_add, id, 8);
    work.operands = AtomicOperands{added, 0};
    return work;
  }

  // Where receive number `place` puts its data in b's memory.
  uint8_t* received(uint32_t place) { return b.memory.data() + b.memory.size() / 2 + place * kReceiveBytes; }
  Sge receive_sge(uint32_t place, uint32_t length) {
    return {reinterpret_cast<uint64_t>(received(place)), length, b.region->key()};
  }
  Status receive(uint64_t id, uint32_t length = kReceiveBytes, uint32_t place = 0) {
    const Sge sge = receive_sge(place, length);
    const model::ReceiveWork work{id, {&sge, 1}};
    return shared ? shared->post(work) : b.qp->post_receive(work);
  }

  // The first message finds b asleep: its engine answers the doorbell.
  void wake_b() {
    if (!b.side.device.lanes().in_use()) b.side.device.carry_on(b.side.clock.now());
  }
  std::vector<Completion> poll_b() {
    wake_b();
    return poll(*b.cq);
  }
  // Until nothing moves any more; what completes on both sides is in `at_a` and `at_b`.
  std::vector<Completion> at_a, at_b;
  void settle() {
    for (int idle = 0; idle < 24;) {  // what is long moves for some turns before it completes
      const auto from_b = poll_b();
      const auto from_a = poll_a();
      at_b.insert(at_b.end(), from_b.begin(), from_b.end());
      at_a.insert(at_a.end(), from_a.begin(), from_a.end());
      idle = from_a.empty() && from_b.empty() ? idle + 1 : 0;
    }
  }
  void pass(Duration time) {
    a.side.clock.advance(time);
    b.side.clock.advance(time);
  }
  std::vector<model::AsyncEventType> events_of(End& end) {
    std::vector<model::AsyncEventType> types;
    for (const model::AsyncEvent& event : end.side.take_events()) types.push_back(event.type);
    return types;
  }
  void a_learns_that_b_died() {
    a.side.process.peers().remove(b.side.process.adapter().incarnation());
    a.side.device.on_peer_dead();
  }
};

}  // namespace verbatim::testing_support
