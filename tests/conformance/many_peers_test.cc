// 10,000 queue pairs to 50 processes, in a program that may open 256 descriptors.
#include <sys/resource.h>

#include "conformance/support/pair.h"
#include "support/descriptor_hoard.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kPeers = 50;
#if defined(VERBATIM_ADDRESS_SANITIZER) || defined(VERBATIM_THREAD_SANITIZER)
constexpr uint32_t kEach = 4;
#else
constexpr uint32_t kEach = 200;
#endif
constexpr uint32_t kBytes = 4096;
constexpr rlim_t kDescriptors = 256;

class ManyPeers : public testing::TestWithParam<Setting> {
 protected:
  ManyPeers() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit tight{kDescriptors, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  }
  ~ManyPeers() override { setrlimit(RLIMIT_NOFILE, &before_); }

  struct Connection {
    RemoteMemory memory;
    QpHandle qp;
  };

 private:
  rlimit before_{};
};
INSTANTIATE_TEST_SUITE_P(Each, ManyPeers, other_processes(), setting_name);

TEST_P(ManyPeers, NeedFewDescriptors) {
  constexpr ibv_qp_cap kSmall{.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  const Side side;
  const Memory memory(MemoryKind::anonymous, kBytes);
  const MrHandle region = side.register_memory(memory);
  std::vector<std::unique_ptr<Responder>> peers;
  std::vector<Connection> connections;
  for (uint32_t i = 0; i < kPeers; ++i) {
    peers.push_back(Responder::start(GetParam()));
    Responder& peer = *peers.back();
    const RemoteMemory there = peer.register_memory(kEach * sizeof(uint64_t));
    for (uint32_t k = 0; k < kEach && !HasFailure(); ++k) {
      const Address address = peer.create_queue_pair();
      QpHandle qp = side.create_queue_pair(kSmall);
      ASSERT_TRUE(qp);
      ASSERT_EQ(peer.connect(k, side.address_of(qp.get())), 0);
      ASSERT_EQ(connect(qp.get(), address), 0) << "to process " << i;
      connections.push_back({{there.address + k * sizeof(uint64_t), there.rkey}, std::move(qp)});
    }
  }
  // Each writes a number of its own, and reads it back when all have.
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    for (uint64_t id = 0; id < connections.size() && !HasFailure(); ++id) {
      const Connection& connection = connections[id];
      uint64_t& value = *reinterpret_cast<uint64_t*>(memory.data());
      value = opcode == IBV_WR_RDMA_WRITE ? id : ~id;
      ASSERT_EQ(post(connection.qp.get(), {{.id = id,
                                            .opcode = opcode,
                                            .sges = {{memory.address(), sizeof value, region->lkey}},
                                            .remote_address = connection.memory.address,
                                            .rkey = connection.memory.rkey}}),
                kAllPosted);
      const std::optional<ibv_wc> completion = side.poll();
      ASSERT_TRUE(completion) << id;
      ASSERT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
      ASSERT_EQ(completion->wr_id, id);
      ASSERT_EQ(completion->qp_num, connection.qp->qp_num);
      ASSERT_EQ(value, id);
    }
  }
  RecordProperty("descriptors", static_cast<int>(testing_support::open_descriptors()));
  connections.clear();
}

}  // namespace
}  // namespace verbatim::conformance
