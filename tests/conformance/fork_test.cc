// fork(2): the child is a process of its own, with a device of its own, and what is its parent's goes on undisturbed.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "conformance/support/pair.h"

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

// clone(2) without the C library, which would tell whoever asked for it.
pid_t bare_clone() { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

class Copy : public testing::TestWithParam<pid_t (*)()> {};
INSTANTIATE_TEST_SUITE_P(Each, Copy,
                         testing::Values(
                             +[] { return fork(); }, &bare_clone),
                         [](const auto& info) { return info.index ? "BareClone" : "Fork"; });

TEST_P(Copy, HasADeviceOfItsOwnAndItsParentGoesOn) {
  const Loop parents;
  ASSERT_TRUE(parents.writes(1));
  const pid_t child = GetParam()();
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

// What the destructors of a program's objects do in a child that ends by exit(3). The engine's thread is in the middle
// of the parent's transfers.
class ForkAmidTransfers : public PairTest, public testing::WithParamInterface<std::tuple<Setting, ibv_wr_opcode>> {
 protected:
  static constexpr uint32_t kLong = 8 << 20;
  ForkAmidTransfers() { set_up(std::get<0>(GetParam()), std::get<1>(GetParam()), kLong); }
};
INSTANTIATE_TEST_SUITE_P(Each, ForkAmidTransfers, every_way(), way_name);

TEST_P(ForkAmidTransfers, AChildMayTakeDownItsCopyOfEverything) {
  constexpr uint64_t kRequests = 4;
  connect();
  std::mt19937 random(std::random_device{}());
  const int rounds = test_everything() ? 200 : 8;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    for (uint64_t id = 0; id < kRequests; ++id) ASSERT_EQ(post(request(id, 0, kLong)), kAllPosted);
    // Nobody polls meanwhile.
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 5000)(random)));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      qp_.reset();
      region_.reset();
      near_.reset();
      _exit(HasFailure());
    }
    for (uint64_t id = 0; id < kRequests; ++id) EXPECT_EQ(next(), succeeded(id));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "of the child";
  }
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
}

// ibv_fork_init(3): nothing is pinned, so that a child takes nothing away.
TEST(Fork, NeedsNoPreparation) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

}  // namespace
}  // namespace verbatim::conformance
