// A process whose peer writes whatever it likes where peers may write: into its own segment, and with it into the lane
// toward us. What it writes, and what we do meanwhile, is drawn from the caller's numbers. Test code only.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "support/message_ends.h"

namespace verbatim::testing_support {

class LyingPeer {
 public:
  // `draw(n)`: any number below n, which is not 0.
  using Draw = std::function<uint64_t(uint64_t)>;
  static constexpr size_t kGranted = 4096;

  LyingPeer(QueuePairType type, bool shares, Draw draw) : draw_(std::move(draw)), ends_(type) {
    // a is the victim: b may write into the middle third of its memory, and into nothing else.
    victim_.assign(3 * kGranted, kUntouched);
    granted_ = ends_.a.side.register_memory(victim_.data() + kGranted, kGranted, kEverything | access::kRemoteAtomic);
    if (shares) ends_.shared = ends_.make_shared_queue(ends_.a), remake_a(type);
    ends_.bring_both();
    segment_ = reinterpret_cast<char*>(const_cast<local::Segment*>(segment_of(ends_.b.side.process.adapter().view())));
  }

  ~LyingPeer() {
    ends_.a.qp.reset();  // before the shared queue that it uses
    put_slots_right();
  }
  LyingPeer(const LyingPeer&) = delete;

  void act() {
    switch (draw_(6)) {
      case 0:
        return scribble();
      case 1:
        return say();
      case 2:
        return request();
      case 3:
        return receive();
      case 4:
        return ends_.b.side.process.adapter().leave_notice(
            {{number_of_a()}, {number_of_b()}, static_cast<uint32_t>(draw_(5)), draw_(2) ? ends_.a.stream() : 0});
      default:
        return look();
    }
  }

  // Whether every byte that was not granted is as it was.
  bool kept_out() const {
    const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
    return std::all_of(victim_.begin(), victim_.begin() + kGranted, untouched) &&
           std::all_of(victim_.end() - kGranted, victim_.end(), untouched);
  }

 private:
  static constexpr uint8_t kUntouched = 0xa5;

  local::SegmentHeader& header() { return *reinterpret_cast<local::SegmentHeader*>(segment_); }

  // The liar itself needs to know what its slots are, whenever it does something.
  void put_slots_right() {
    header().slot_count.store(1, std::memory_order_relaxed);
    header().slots[0].store(ends_.b.qp->qpn().slot().value, std::memory_order_relaxed);
  }

  void remake_a(QueuePairType type) {
    End& a = ends_.a;
    a.qp.reset();
    a.qp = model::QueuePair::create(a.side.device, a.side.events,
                                    {.type = type,
                                     .pd = a.side.pd.get(),
                                     .send_cq = a.cq.get(),
                                     .receive_cq = a.cq.get(),
                                     .shared_receives = ends_.shared.get(),
                                     .capabilities = MessageEnds::kCapabilities,
                                     .handle = &a})
               .take();
  }
  uint32_t number_of_a() { return draw_(8) ? ends_.a.qp->qpn().value : static_cast<uint32_t>(draw_(1u << 24)); }
  uint32_t number_of_b() { return draw_(8) ? ends_.b.qp->qpn().value : static_cast<uint32_t>(draw_(1u << 24)); }
  uint64_t any_word() { return draw_(2) ? draw_(300) : draw_(std::numeric_limits<uint64_t>::max()); }
  uint64_t any_address() {
    const auto start = reinterpret_cast<uint64_t>(victim_.data());
    return draw_(4) ? start + draw_(3 * kGranted + 16) - 8 : any_word();
  }

  // Some bytes somewhere in what a reads. Not the touch records: who holds one up is waited for.
  void scribble() {
    using local::Segment;
    const local::Adapter& adapter = ends_.b.side.process.adapter();
    const local::Lane* const lane = adapter.view().find_lane(ends_.a.side.process.adapter().incarnation());
    const size_t region =
        offsetof(Segment, regions) + adapter.view().entry_index(ends_.b.region->key()) * sizeof(local::RegionEntry);
    struct Range {
      size_t start, length;
    };
    const size_t lane_start =
        lane ? static_cast<size_t>(reinterpret_cast<const char*>(lane) - segment_) : offsetof(Segment, lanes);
    const Range ranges[] = {
        {offsetof(Segment, header) + sizeof(uint64_t) * 3, sizeof(local::SegmentHeader) - sizeof(uint64_t) * 3},
        {offsetof(Segment, notices), sizeof(local::NoticeEntry) * 8},
        {offsetof(Segment, attachments), sizeof(local::AttachmentEntry) * 8},
        {offsetof(Segment, queue_pairs) + ends_.b.qp->qpn().index() * sizeof(local::QueuePairEntry),
         sizeof(local::QueuePairEntry)},
        // Not where its memory is: both have the same here, and what we write there may be anywhere.
        {region, sizeof(uint64_t) + offsetof(local::RegionFields, iova)},
        {region + sizeof(uint64_t) + offsetof(local::RegionFields, backing_device),
         sizeof(local::RegionFields) - offsetof(local::RegionFields, backing_device)},
        {offsetof(Segment, receive_counts) + ends_.b.qp->qpn().index() * sizeof(local::ReceiveCount),
         sizeof(local::ReceiveCount)},
        {lane_start, sizeof(local::LaneRequest) * 16},
        {lane_start + offsetof(local::Lane, replies), sizeof(local::LaneReply) * 16},
        {lane_start + offsetof(local::Lane, payload), 4096},
    };
    const Range& range = ranges[draw_(std::size(ranges))];
    const size_t at = range.start + draw_(range.length / 8) * 8;
    const uint64_t word = any_word();
    reinterpret_cast<std::atomic<uint64_t>*>(segment_ + at)->store(word, std::memory_order_relaxed);
  }

  // A request that is sound as far as a lane knows.
  void say() {
    put_slots_right();
    const auto lanes = ends_.b.side.device.lanes().to(ends_.b.side.process.peers().find(ends_.a.qp->qpn().slot()));
    if (!lanes) return;
    uint8_t bytes[600];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw_(256));
    if (draw_(2)) {  // a list of what to fetch, or operands
      const Sge sge{reinterpret_cast<uint64_t>(ends_.b.memory.data()) + draw_(4096),
                    static_cast<uint32_t>(draw_(100'000)), ends_.b.region->key()};
      std::memcpy(bytes, &sge, sizeof sge);
    }
    local::QueuePairFields own;
    ends_.b.side.process.adapter().view().read(ends_.b.qp->qpn(), own);
    const iovec payload{bytes, draw_(sizeof bytes)};
    CopyFault fault;
    [[maybe_unused]] const local::LanePost posted =
        lanes->post({.source = {number_of_b()},
                     .target = {number_of_a()},
                     .stream = draw_(8) ? own.stream : static_cast<uint32_t>(any_word()),
                     .number = static_cast<uint32_t>(draw_(8) ? said_++ : draw_(10)),
                     .opcode = static_cast<uint8_t>(draw_(8) ? draw_(16) : draw_(256)),
                     .flags = static_cast<uint8_t>(draw_(2) ? local::lane_flag::kFirst : draw_(128)),
                     .pieces = static_cast<uint8_t>(draw_(40)),
                     .immediate = draw_(2) ? granted_->key().value : static_cast<uint32_t>(any_word()),
                     .length = static_cast<uint32_t>(draw_(4) ? payload.iov_len : any_word()),
                     .key = draw_(8) ? granted_->key().value : static_cast<uint32_t>(any_word()),
                     .shared_queue = static_cast<uint32_t>(draw_(3)),
                     .remote_address = draw_(4) ? any_address() : draw_(700)},
                    {&payload, 1}, {}, &fault);
  }

  // Something of a's own.
  void request() {
    static constexpr SendOpcode kOpcodes[] = {
        SendOpcode::rdma_write,          SendOpcode::rdma_write_with_imm, SendOpcode::send,
        SendOpcode::rdma_read,           SendOpcode::atomic_fetch_add,    SendOpcode::atomic_write,
        SendOpcode::send_with_invalidate};
    const SendOpcode opcode = kOpcodes[draw_(std::size(kOpcodes))];
    const bool word = local::is_atomic(opcode) || opcode == SendOpcode::atomic_write;
    SendWork work = ends_.a.work(ends_.b, opcode, 1, word ? 8 : static_cast<uint32_t>(draw_(30'000)));
    // A peer that lies about its regions must not make us overwrite ours.
    if (draw_(4) == 0) work.remote_address = any_address();
    [[maybe_unused]] const Status posted = ends_.a.post(work);
  }

  void receive() {
    const Sge sge{reinterpret_cast<uint64_t>(victim_.data() + kGranted), static_cast<uint32_t>(draw_(kGranted + 1)),
                  granted_->key()};
    const model::ReceiveWork work{2, {&sge, 1}};
    [[maybe_unused]] const Status posted = ends_.shared ? ends_.shared->post(work) : ends_.a.qp->post_receive(work);
  }

  void look() {
    ends_.pass(Duration::milliseconds(1));
    for (const auto& peer : ends_.a.side.process.peers().known()) ends_.a.side.device.take_notices(*peer);
    ends_.a.side.device.carry_on(ends_.a.side.clock.now());
    ends_.poll_a();
    ends_.events_of(ends_.a);
    if (ends_.a.qp->state() == QueuePairState::err && draw_(2)) {
      ASSERT_TRUE(modify(*ends_.a.qp, QueuePairState::reset).ok());
      bring(*ends_.a.qp, ends_.a_attributes());
    }
  }

  Draw draw_;
  MessageEnds ends_;
  std::vector<uint8_t> victim_;
  std::unique_ptr<model::MemoryRegion> granted_;
  char* segment_ = nullptr;
  uint32_t said_ = 0;
};

}  // namespace verbatim::testing_support
