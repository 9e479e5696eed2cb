// Many at once at the same eight bytes: peers by FETCH_ADD and CMP_SWAP, and the processor of the process that has
// them. IBV_ATOMIC_GLOB: no addition is lost, whoever makes it.
#include <atomic>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kPeers = 4;
constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;

using Parameters = std::tuple<Setting, MemoryKind>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  const auto& [peers, memory] = info.param;
  const bool asking = peers == Setting::other_process_unreachable;
  return std::string(asking                    ? "ProcessesAskingFor"
                     : is_other_process(peers) ? "ProcessesOn"
                                               : "ThreadsOn") +
         (memory == MemoryKind::file ? "MemoryThatPeersMap" : "MemoryThatPeersDoNotMap");
}

class ContendedWord : public testing::TestWithParam<Parameters> {
 protected:
  ContendedWord() : memory_(std::get<1>(GetParam()), 4096), region_(side_.register_memory(memory_, kAccess)) {
    for (uint32_t i = 0; i < kPeers; ++i) {
      peers_.push_back(Responder::start(std::get<0>(GetParam())));
      peers_[i]->register_memory(4096);
      const Address far = peers_[i]->create_queue_pair();
      queue_pairs_.push_back(side_.create_queue_pair());
      EXPECT_EQ(connect(queue_pairs_[i].get(), far, {.access = kAccess}), 0);
      EXPECT_EQ(peers_[i]->connect(0, side_.address_of(queue_pairs_[i].get())), 0);
    }
  }

  std::atomic_ref<uint64_t> word() const { return std::atomic_ref(*reinterpret_cast<uint64_t*>(memory_.data())); }

  // Every peer adds `count` in its way, and this thread one more after each change that it sees, so that it is amid
  // them and yet no CMP_SWAP fails for ever.
  void expect_exact_sum(const std::vector<ibv_wr_opcode>& ways, uint32_t count) {
    std::atomic<uint32_t> finished{0};
    std::vector<std::thread> asking;
    for (uint32_t i = 0; i < kPeers; ++i)
      asking.emplace_back([&, i] {
        EXPECT_EQ(peers_[i]->add_remotely(0, ways[i % ways.size()], {memory_.address(), region_->rkey}, count), 0);
        ++finished;
      });
    uint64_t own = 0;
    for (uint64_t seen = 0; finished < kPeers; std::this_thread::yield()) {
      if (word().load() == seen) continue;
      seen = word().fetch_add(1) + 1;
      ++own;
    }
    for (std::thread& thread : asking) thread.join();
    EXPECT_EQ(word().load(), own + uint64_t{kPeers} * count);
  }

  Side side_;
  Memory memory_;
  MrHandle region_;
  std::vector<QpHandle> queue_pairs_;
  std::vector<std::unique_ptr<Responder>> peers_;
};
INSTANTIATE_TEST_SUITE_P(Each, ContendedWord,
                         testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous,
                                                          Setting::other_process_unreachable),
                                          testing::Values(MemoryKind::anonymous, MemoryKind::file)),
                         parameters_name);

uint32_t additions() { return test_everything() ? 20'000 : 5'000; }

TEST_P(ContendedWord, LosesNoFetchAndAdd) { expect_exact_sum({IBV_WR_ATOMIC_FETCH_AND_ADD}, additions()); }

TEST_P(ContendedWord, LosesNoCompareAndSwap) { expect_exact_sum({IBV_WR_ATOMIC_CMP_AND_SWP}, additions()); }

TEST_P(ContendedWord, LosesNothingOfBothAtOnce) {
  expect_exact_sum({IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}, additions());
}

}  // namespace
}  // namespace verbatim::conformance
