// kill -9 of the peer at a random moment of each kind of transfer, again and again, in one process that survives it:
// every request and receive completes, and nothing is left of the dead. VERBATIM_TEST_ALL=1: 10,000 of them.
#include <dirent.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "base/sanitizer.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

struct Kind {
  const char* name;
  ibv_qp_type type;
  ibv_wr_opcode opcode;
  bool receives = false;  // the peer sends
};
constexpr Kind kKinds[] = {
    {"Write", IBV_QPT_RC, IBV_WR_RDMA_WRITE},
    {"Read", IBV_QPT_RC, IBV_WR_RDMA_READ},
    {"FetchAndAdd", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {"Send", IBV_QPT_RC, IBV_WR_SEND},
    {"WriteWithImmediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {"Receive", IBV_QPT_RC, IBV_WR_SEND, true},
    {"CompareAndSwap", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {"UnreliableWrite", IBV_QPT_UC, IBV_WR_RDMA_WRITE},
    {"UnreliableSend", IBV_QPT_UC, IBV_WR_SEND},
    {"Datagram", IBV_QPT_UD, IBV_WR_SEND},
    {"ExtendedSend", IBV_QPT_XRC_SEND, IBV_WR_SEND},
    {"ExtendedWrite", IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE},
    {"ExtendedRead", IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ},
};
// What a process has that could be left over.
size_t descriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}
size_t segments() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("verbatim-adapter") != std::string::npos;
  return count;
}

using Parameters = std::tuple<Setting, Kind>;

class DeathStorm : public testing::TestWithParam<Parameters> {
 protected:
  static constexpr uint32_t kLength = 128 << 10;  // two slices
  static constexpr uint32_t kInFlight = 16;
  static constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;

  static int rounds() {
    if (test_everything()) return 10'000 / (3 * static_cast<int>(std::size(kKinds))) + 1;
#if defined(VERBATIM_ADDRESS_SANITIZER)
    return 2;  // its processes take long to begin and to end
#else
    return 8;
#endif
  }
  const Kind& kind() const { return std::get<1>(GetParam()); }
  bool reliable() const { return kind().type == IBV_QPT_RC || kind().type == IBV_QPT_XRC_SEND; }

  // A peer that is connected to `qp`, with receives and memory for whatever comes.
  struct Peer {
    std::unique_ptr<Responder> process;
    Address address;
    RemoteMemory memory;
    std::atomic<bool> dead{false};
  };
  void meet(ibv_qp* qp, Peer& peer) {
    peer.process = Responder::start(std::get<0>(GetParam()));
    peer.memory = peer.process->register_memory(kLength, kAccess);
    const ibv_qp_type type = kind().type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : kind().type;
    peer.address = peer.process->create_queue_pair(type);
    EXPECT_EQ(peer.process->connect(0, side_.address_of(qp), {.access = kAccess}, type), 0);
    EXPECT_EQ(connect(qp, peer.address, {.access = kAccess}), 0);
    for (uint32_t i = 0; i < kInFlight && !kind().receives; ++i)
      EXPECT_EQ(peer.process->post_receive(0, i, {{0, kLength}}), 0);
  }

  uint32_t length() const {
    if (kind().opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || kind().opcode == IBV_WR_ATOMIC_CMP_AND_SWP) return 8;
    return kind().type == IBV_QPT_UD ? 1024 : kLength;
  }

  Request request(uint64_t id, const Peer& peer, ibv_ah* handle) const {
    Request request{.id = id,
                    .opcode = kind().opcode,
                    .sges = {{memory_.address(), length(), region_->lkey}},
                    .remote_address = peer.memory.address,
                    .rkey = peer.memory.rkey,
                    .compare_add = 1};
    if (kind().type == IBV_QPT_XRC_SEND) request.shared_queue = peer.address.shared_queue;
    if (kind().type == IBV_QPT_UD) {
      request.handle = handle;
      request.qpn = peer.address.qpn;
      request.qkey = Wiring{}.qkey;
    }
    return request;
  }

  // In a thread: kills it within the first milliseconds.
  std::jthread killer(Peer& peer) {
    const std::chrono::microseconds moment(std::uniform_int_distribution(0, 3000)(random_));
    return std::jthread([&peer, moment] {
      std::this_thread::sleep_for(moment);
      peer.process->kill();
      peer.dead = true;
    });
  }

  // Keeps requests under way until one fails, or until the peer is dead where none does.
  void send_until_it_ends(ibv_qp* qp, Peer& peer) {
    const AhHandle handle = kind().type == IBV_QPT_UD ? side_.create_address_handle(peer.address.gid) : nullptr;
    std::jthread kills = killer(peer);
    uint64_t posted = 0, completed = 0;
    bool failed = false;
    const auto take = [&] {
      const std::optional<ibv_wc> completion = side_.poll();
      ASSERT_TRUE(completion) << posted - completed << " requests never complete";
      ASSERT_EQ(completion->wr_id, completed++);
      if (completion->status == IBV_WC_SUCCESS) {
        ASSERT_FALSE(failed) << "a success after an error";
        return;
      }
      ASSERT_TRUE(reliable()) << ibv_wc_status_str(completion->status);
      ASSERT_EQ(completion->status, failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR)
          << ibv_wc_status_str(completion->status);
      failed = true;
    };
    while (!failed && !HasFatalFailure() && (reliable() || !peer.dead)) {
      while (posted - completed < kInFlight && !HasFailure())
        ASSERT_EQ(post(qp, {request(posted++, peer, handle.get())}), kAllPosted);
      take();
    }
    while (completed < posted && !HasFatalFailure()) take();
    EXPECT_EQ(state_of(qp), reliable() ? IBV_QPS_ERR : IBV_QPS_RTS);
    kills.join();
    EXPECT_FALSE(side_.poll(std::chrono::nanoseconds(0)));
  }

  // The peer sends as long as it lives. What it has sent arrives, and the rest is flushed.
  void receive_until_it_ends(ibv_qp* qp, Peer& peer) {
    for (uint64_t id = 0; id < kInFlight; ++id) {
      ibv_sge sge{memory_.address(), kLength, region_->lkey};
      ibv_recv_wr receive{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
    }
    for (uint64_t id = 0; id < kInFlight; ++id)
      ASSERT_EQ(peer.process->post_send(
                    0, {.id = id, .opcode = IBV_WR_SEND, .piece = {0, kLength}, .flags = IBV_SEND_SIGNALED}),
                0);
    std::jthread kills = killer(peer);
    std::optional<ibv_wc> completion;
    uint64_t received = 0;
    while (!peer.dead) {
      completion = side_.poll(std::chrono::microseconds(100));
      if (!completion) continue;
      ASSERT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
      ASSERT_EQ(completion->wr_id, received++);
    }
    kills.join();
    ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
    for (bool flushed = false; received < kInFlight; ++received) {
      completion = side_.poll();
      ASSERT_TRUE(completion) << kInFlight - received << " receives never complete";
      ASSERT_EQ(completion->wr_id, received);
      flushed |= completion->status == IBV_WC_WR_FLUSH_ERR;
      ASSERT_EQ(completion->status, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    }
  }

  void transfer_until_death(bool has_child = false) {
    const QpHandle qp = side_.create_queue_pair(kOrdinaryCapabilities, false, kind().type);
    Peer peer;
    meet(qp.get(), peer);
    const pid_t child = has_child ? peer.process->fork_child() : 0;
    // What is no process is none to kill.
    ASSERT_TRUE(!has_child || child > 1);
    if (kind().receives)
      receive_until_it_ends(qp.get(), peer);
    else
      send_until_it_ends(qp.get(), peer);
    if (!has_child) return;
    EXPECT_EQ(kill(child, SIGKILL), 0) << "the child died with its parent";
  }

  // The engine hears of a death on its own time.
  template <class Count>
  static void expect_soon(Count&& count, size_t most, const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    while (count() > most && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_LE(count(), most) << what << " of the dead are left";
  }

  const Side side_;
  const Memory memory_{MemoryKind::anonymous, kLength};
  const MrHandle region_ = side_.register_memory(memory_, kAccess);
  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
};

std::string storm_name(const testing::TestParamInfo<Parameters>& info) {
  return name(std::get<0>(info.param)) + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Each, DeathStorm, testing::Combine(other_processes(), testing::ValuesIn(kKinds)), storm_name);

TEST_P(DeathStorm, LeavesNothingBehindAndNobodyWaiting) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  transfer_until_death();
  expect_soon(segments, 1, "segments");
  const size_t before = descriptors();
  // The child of each other one lives on.
  for (int round = 1; round < rounds() && !HasFailure(); ++round) transfer_until_death(round % 2 == 1);
  expect_soon(segments, 1, "segments");
  expect_soon(descriptors, before, "descriptors");
}

// Whose transfers with the survivor go on all the time.
TEST_P(DeathStorm, IsNotNoticedByAThird) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  const Side side;
  const MrHandle region = side.register_memory(memory_);
  const std::unique_ptr<Responder> third = Responder::start(std::get<0>(GetParam()));
  const RemoteMemory there = third->register_memory(kLength);
  const Address address = third->create_queue_pair();
  const QpHandle qp = side.create_queue_pair();
  ASSERT_EQ(third->connect(0, side.address_of(qp.get())), 0);
  ASSERT_EQ(connect(qp.get(), address), 0);
  uint64_t written = 0;
  std::jthread writer([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); ++written) {
      ASSERT_EQ(post(qp.get(), {{.id = written,
                                 .sges = {{memory_.address(), kLength, region->lkey}},
                                 .remote_address = there.address,
                                 .rkey = there.rkey}}),
                kAllPosted);
      const std::optional<ibv_wc> completion = side.poll();
      ASSERT_TRUE(completion && completion->wr_id == written);
      ASSERT_EQ(completion->status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion->status);
    }
  });
  for (int round = 0; round < (test_everything() ? 50 : 2) && !HasFailure(); ++round) transfer_until_death();
  writer.request_stop();
  writer.join();
  EXPECT_GT(written, 0u);
  EXPECT_FALSE(third->next_event(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace verbatim::conformance
