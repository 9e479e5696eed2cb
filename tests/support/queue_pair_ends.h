// Two processes with a queue pair each, and memory of both registered: the stage of most queue pair tests. Test code
// only.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "support/test_device.h"

namespace verbatim::testing_support {

struct End {
  explicit End(uint16_t first_slot) : side(first_slot) {}

  TestDevice side;
  std::vector<uint8_t> memory = std::vector<uint8_t>(4 * 1024 * 1024);
  std::unique_ptr<model::MemoryRegion> region = side.register_memory(memory.data(), memory.size(), kEverything);
  std::unique_ptr<model::CompletionQueue> cq = side.make_cq(64);
  std::unique_ptr<model::QueuePair> qp = make_qp();
  std::vector<Sge> sges;

  // `this` is the handle that events name.
  std::unique_ptr<model::QueuePair> make_qp(model::QueuePairCapabilities capabilities = {4, 4, 4, 1, 64},
                                            bool signal_all = false) {
    return model::QueuePair::create(side.device, side.events,
                                    {.pd = side.pd.get(),
                                     .send_cq = cq.get(),
                                     .receive_cq = cq.get(),
                                     .capabilities = capabilities,
                                     .signal_all = signal_all,
                                     .handle = this})
        .take();
  }
  // A signaled request over the first `length` bytes of the memory of both ends.
  SendWork work(const End& target, SendOpcode opcode, uint64_t id, uint32_t length) {
    sges = {{reinterpret_cast<uint64_t>(memory.data()), length, region->key()}};
    return {.work_id = id,
            .opcode = opcode,
            .signaled = true,
            .rkey = target.region->key(),
            .remote_address = reinterpret_cast<uint64_t>(target.memory.data()),
            .sges = sges,
            .length = length};
  }
  Status post(const SendWork& what) { return model::QueuePair::Posting(*qp).send(what); }
  // What a notice to it carries.
  uint32_t stream() {
    local::QueuePairFields fields;
    EXPECT_TRUE(side.process.adapter().view().read(qp->qpn(), fields));
    return fields.stream;
  }
};

struct QueuePairEnds {
  End a{0x10};
  End b{0x20};

  QueuePairEnds() {
    introduce(a.side.process, b.side.process);
    for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  void connect_a() { connect(*a.qp, b.qp->qpn()); }
  void connect_b() { connect(*b.qp, a.qp->qpn()); }
  void connect_both() {
    connect_a();
    connect_b();
  }

  SendWork write(uint64_t id, uint32_t length = 8) { return a.work(b, SendOpcode::rdma_write, id, length); }
  SendWork read(uint64_t id, uint32_t length = 8) { return a.work(b, SendOpcode::rdma_read, id, length); }
  SendWork bad_write(uint64_t id) {
    SendWork work = write(id);
    work.rkey.value ^= 1;
    return work;
  }
  std::vector<Completion> poll_a() { return poll(*a.cq); }

  // What b's engine does when its doorbell rings.
  void b_takes_notices() {
    for (const auto& peer : b.side.process.peers().known()) b.side.device.take_notices(*peer);
  }
};

// What a test compares of a completion.
struct Outcome {
  uint64_t id;
  CompletionStatus status;
  bool operator==(const Outcome&) const = default;
  friend void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << "WR " << outcome.id << " " << name(outcome.status);
  }
};
inline std::vector<Outcome> outcomes(const std::vector<Completion>& completions) {
  std::vector<Outcome> result;
  for (const Completion& completion : completions) result.push_back({completion.work_id, completion.status});
  return result;
}

}  // namespace verbatim::testing_support
