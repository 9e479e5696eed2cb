#include "conformance/support/storm.h"

#include <dirent.h>

#include <fstream>
#include <thread>

#include "base/sanitizer.h"

namespace verbatim::conformance {
namespace {

bool completed(const std::optional<ibv_wc>& completion, uint64_t id) {
  return completion && completion->wr_id == id && completion->status == IBV_WC_SUCCESS;
}

std::string described(const std::optional<ibv_wc>& completion) {
  if (!completion) return "no completion";
  return "WR " + std::to_string(completion->wr_id) + ": " + ibv_wc_status_str(completion->status);
}

}  // namespace

std::string name(const Kind& kind) {
  return name(static_cast<const Operation&>(kind)) + (kind.receives ? "Received" : "");
}

std::string storm_name(const testing::TestParamInfo<StormParameters>& info) {
  return name(std::get<0>(info.param)) + name(std::get<1>(info.param));
}

std::vector<Kind> every_kind() {
  return {
      {{IBV_QPT_RC, IBV_WR_RDMA_WRITE}},
      {{IBV_QPT_RC, IBV_WR_RDMA_READ}},
      {{IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD}},
      {{IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP}},
      {{IBV_QPT_RC, IBV_WR_SEND}},
      {{IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM}},
      {{IBV_QPT_RC, IBV_WR_SEND}, true},
      {{IBV_QPT_UC, IBV_WR_RDMA_WRITE}},
      {{IBV_QPT_UC, IBV_WR_SEND}},
      {{IBV_QPT_UD, IBV_WR_SEND}},
      {{IBV_QPT_XRC_SEND, IBV_WR_SEND}},
      {{IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE}},
      {{IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ}},
  };
}

int Storm::times(int all, int usual) {
  const auto tests = static_cast<int>(3 * every_kind().size());
  if (test_everything()) return all / tests + 1;
#if defined(VERBATIM_ADDRESS_SANITIZER)
  // Its processes take long to begin and to end.
  return usual / 4;
#else
  return usual;
#endif
}

void Storm::meet(ibv_qp* qp, Peer& peer, const Wiring& wiring) {
  peer.process = Responder::start(std::get<0>(GetParam()));
  peer.memory = peer.process->register_memory(kLength, kAccess);
  peer.address = peer.process->create_queue_pair(kind().peer_type());
  ASSERT_EQ(peer.process->connect(0, side_.address_of(qp), wiring, kind().peer_type()), 0);
  ASSERT_EQ(connect(qp, peer.address, wiring), 0);
}

void Storm::post_receives(Peer& peer) {
  if (!kind().takes_receive() || kind().receives) return;
  for (uint64_t id = 0; id < kInFlight; ++id) ASSERT_EQ(peer.process->post_receive(0, id, {{0, kLength}}), 0);
}

void Storm::post_receives(ibv_qp* qp) {
  for (uint64_t id = 0; id < kInFlight; ++id) {
    ibv_sge sge{memory_.address(), kLength, region_->lkey};
    ibv_recv_wr receive{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  }
}

Request Storm::request(uint64_t id, const Peer& peer, ibv_ah* handle) const {
  const uint32_t length = kind().is_atomic() ? 8 : kind().type == IBV_QPT_UD ? 1024 : kLength;
  Request request{.id = id,
                  .opcode = kind().opcode,
                  .sges = {{memory_.address(), length, region_->lkey}},
                  .remote_address = peer.memory.address,
                  .rkey = peer.memory.rkey,
                  .compare_add = 1,
                  .handle = handle,
                  .qkey = Wiring{}.qkey};
  if (kind().type == IBV_QPT_UD) request.qpn = peer.address.qpn;
  if (kind().extended()) request.shared_queue = peer.address.shared_queue;
  return request;
}

int Storm::post_from(Peer& peer, uint64_t id) {
  return peer.process->post_send(
      0, {.id = id, .opcode = kind().opcode, .piece = {0, kLength}, .flags = IBV_SEND_SIGNALED});
}

void Storm::expect_completions(uint64_t first, const std::function<std::optional<ibv_wc>()>& poll, const char* whose) {
  for (uint64_t id = first; id < first + kInFlight; ++id) {
    const std::optional<ibv_wc> completion = poll();
    ASSERT_TRUE(completed(completion, id)) << whose << " " << id << ": " << described(completion);
  }
}

void Storm::expect_transfers(ibv_qp* qp, Peer& peer, ibv_ah* handle) {
  const auto here = [&] { return side_.poll(); };
  const auto there = [&] { return peer.process->poll(); };
  if (kind().receives) {
    ASSERT_NO_FATAL_FAILURE(post_receives(qp));
    for (uint64_t id = 0; id < kInFlight; ++id) ASSERT_EQ(post_from(peer, id), 0);
    ASSERT_NO_FATAL_FAILURE(expect_completions(0, here, "receive"));
    return expect_completions(0, there, "the peer's request");
  }
  ASSERT_NO_FATAL_FAILURE(post_receives(peer));
  for (uint64_t id = 0; id < kInFlight; ++id) ASSERT_EQ(post(qp, {request(id, peer, handle)}), kAllPosted);
  ASSERT_NO_FATAL_FAILURE(expect_completions(0, here, "request"));
  if (kind().takes_receive()) expect_completions(0, there, "the peer's receive");
}

void Storm::beside_a_third(const std::function<void()>& storm) {
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
      const Request request{.id = written,
                            .sges = {{memory_.address(), kLength, region->lkey}},
                            .remote_address = there.address,
                            .rkey = there.rkey};
      ASSERT_EQ(post(qp.get(), {request}), kAllPosted);
      const std::optional<ibv_wc> completion = side.poll();
      ASSERT_TRUE(completed(completion, written)) << described(completion);
    }
  });
  storm();
  writer.request_stop();
  writer.join();
  EXPECT_GT(written, 0u);
  EXPECT_FALSE(third->next_event(std::chrono::milliseconds(0)));
}

size_t Storm::descriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

size_t Storm::segments() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("verbatim-adapter") != std::string::npos;
  return count;
}

void Storm::expect_soon(const std::function<size_t()>& count, size_t most, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  while (count() > most && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(count(), most) << what << " of the dead are left";
}

}  // namespace verbatim::conformance
