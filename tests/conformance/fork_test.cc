// fork(2): the child is a process of its own, with a device of its own, and what is its parent's goes on undisturbed.
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kLength = 64;

// A queue pair that is connected to itself.
struct Loop {
  Side side;
  Memory memory{MemoryKind::anonymous, 8192};
  MrHandle region = side.register_memory(memory);
  QpHandle qp = side.create_queue_pair();

  Loop() { EXPECT_EQ(connect(qp.get(), side.address_of(qp.get())), 0); }
  // Whether a WRITE arrives.
  bool writes(uint64_t seed) const {
    fill(memory.bytes(0, kLength), seed);
    ibv_sge sge{memory.address(0), kLength, region->lkey};
    ibv_send_wr request{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    request.wr.rdma = {.remote_addr = memory.address(4096), .rkey = region->rkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp.get(), &request, &bad) != 0) return false;
    const std::optional<ibv_wc> completion = side.poll();
    return completion && completion->status == IBV_WC_SUCCESS &&
           first_difference(memory.bytes(4096, kLength), seed) == std::nullopt;
  }
};

TEST(Fork, AChildHasADeviceOfItsOwnAndItsParentGoesOn) {
  const Loop parents;
  ASSERT_TRUE(parents.writes(1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    {
      const Loop own;
      EXPECT_TRUE(own.writes(2));
      EXPECT_NE(own.qp->qp_num, parents.qp->qp_num);
    }
    _exit(testing::Test::HasFailure());
  }
  EXPECT_TRUE(parents.writes(3));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(parents.writes(4)) << "after the child's end";
}

// ibv_fork_init(3): nothing is pinned, so that a child takes nothing away.
TEST(Fork, NeedsNoPreparation) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

}  // namespace
}  // namespace verbatim::conformance
