// The fixture of what befalls a peer at random moments of each kind of transfer, again and again. The survivor is the
// test's process.
#pragma once

#include <atomic>
#include <functional>
#include <random>

#include "conformance/support/operation.h"

namespace verbatim::conformance {

// What is under way: the survivor's requests, or messages of the peer.
struct Kind : Operation {
  bool receives = false;

  bool reliable() const { return type == IBV_QPT_RC || extended(); }
};
std::string name(const Kind& kind);

using StormParameters = std::tuple<Setting, Kind>;
std::string storm_name(const testing::TestParamInfo<StormParameters>& info);
std::vector<Kind> every_kind();
inline auto every_storm() { return testing::Combine(other_processes(), testing::ValuesIn(every_kind())); }

class Storm : public testing::TestWithParam<StormParameters> {
 protected:
  static constexpr uint32_t kLength = 128 << 10;  // two slices
  static constexpr uint32_t kInFlight = 16;

  struct Peer {
    std::unique_ptr<Responder> process;
    Address address;
    RemoteMemory memory;
    std::atomic<bool> dead{false};
  };

  const Kind& kind() const { return std::get<1>(GetParam()); }
  // How often it befalls in one of the tests: `usual` times, or this test's share of `all`.
  static int times(int all, int usual);

  QpHandle create_queue_pair() const { return side_.create_queue_pair(kOrdinaryCapabilities, false, kind().type); }
  AhHandle create_address_handle(const Peer& peer) const {
    return kind().type == IBV_QPT_UD ? side_.create_address_handle(peer.address.gid) : nullptr;
  }
  // A new process, with a queue pair that is connected to `qp`.
  void meet(ibv_qp* qp, Peer& peer, const Wiring& wiring = {.access = kAccess});

  // As many receives as requests may be in flight: the peer's if it takes any, and this process's.
  void post_receives(Peer& peer);
  void post_receives(ibv_qp* qp);
  Request request(uint64_t id, const Peer& peer, ibv_ah* handle) const;
  int post_from(Peer& peer, uint64_t id);

  // kInFlight requests at once: each succeeds, and each message arrives.
  void expect_transfers(ibv_qp* qp, Peer& peer, ibv_ah* handle);
  // Calls it while transfers with a third process go on all the time, which succeed.
  void beside_a_third(const std::function<void()>& storm);

  // What this process has of the peers. The engine hears of a death on its own time.
  static size_t descriptors();
  static size_t segments();
  static void expect_soon(const std::function<size_t()>& count, size_t most, const char* what);

  std::chrono::microseconds random_moment(int most) {
    return std::chrono::microseconds(std::uniform_int_distribution(0, most)(random_));
  }

  const Side side_;
  const Memory memory_{MemoryKind::anonymous, kLength};
  const MrHandle region_ = side_.register_memory(memory_, kAccess);

 private:
  void expect_completions(uint64_t first, const std::function<std::optional<ibv_wc>()>& poll, const char* whose);

  const unsigned seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937 random_{seed_};
};

}  // namespace verbatim::conformance
