// Nothing lands after a call that takes rights away has returned: ibv_dereg_mr, ibv_rereg_mr, ibv_destroy_qp,
// ibv_modify_qp to ERR, to RESET, or to fewer access flags. Many writers are at it all the time, here and in another
// process.
#include <atomic>
#include <random>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

enum class Taking { deregister, reregister, destroy, to_error, to_reset, narrow };

std::string name(Taking taking) {
  constexpr const char* kNames[] = {"Deregister", "Reregister", "Destroy", "ToError", "ToReset", "Narrow"};
  return kNames[static_cast<int>(taking)];
}

using Parameters = std::tuple<Setting, MemoryKind, Taking>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return std::string(is_other_process(std::get<0>(info.param)) ? "WritersElsewhere" : "WritersHere") +
         (std::get<1>(info.param) == MemoryKind::file ? "File" : "Anonymous") + name(std::get<2>(info.param));
}

// The owner of the memory is this process; the writers are what it defends itself against.
class Revocation : public testing::TestWithParam<Parameters> {
 protected:
  static constexpr uint32_t kWriters = 4;
  // More than one slice, so that a message is cut in the middle too.
  static constexpr uint32_t kLength = 200'000;

  void SetUp() override {
    writers_ = Responder::start(std::get<0>(GetParam()));
    writers_->register_memory(kLength);
    side_.emplace();
    memory_.emplace(std::get<1>(GetParam()), kLength);
  }

  // Everything is connected, the writers write, and some of it has arrived.
  void begin() {
    fill(memory_->bytes(), kBefore);
    region_ = side_->register_memory(*memory_);
    for (uint32_t i = 0; i < kWriters; ++i) {
      const Address writer = writers_->create_queue_pair();
      queue_pairs_.push_back(side_->create_queue_pair());
      ASSERT_EQ(connect(queue_pairs_.back().get(), writer), 0);
      ASSERT_EQ(writers_->connect(i, side_->address_of(queue_pairs_.back().get())), 0);
    }
    writers_->begin_writing({memory_->address(), region_->rkey}, kLength);
    ASSERT_TRUE(something_arrives());
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 500));
  }

  // After it the writers have no right any more.
  void take_away() {
    switch (std::get<2>(GetParam())) {
      case Taking::deregister:
        return region_.reset();
      case Taking::reregister:
        EXPECT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other_memory_.data(), 4096, 0),
                  0);
        return;
      case Taking::destroy:
        return queue_pairs_.clear();
      case Taking::to_error:
        return for_each([](ibv_qp* qp) { return to_state(qp, IBV_QPS_ERR); });
      case Taking::to_reset:
        return for_each([](ibv_qp* qp) { return to_state(qp, IBV_QPS_RESET); });
      case Taking::narrow:
        return for_each([](ibv_qp* qp) {
          ibv_qp_attr attributes{};
          attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
          return ibv_modify_qp(qp, &attributes, IBV_QP_ACCESS_FLAGS);
        });
    }
  }

  void end() {
    writers_->end_writing();
    queue_pairs_.clear();
    region_.reset();
    while (side_->poll({})) {
    }
    while (std::optional<ibv_async_event> event = side_->next_event({})) ibv_ack_async_event(&*event);
  }

  // The memory is the owner's alone from here on: what it writes stays.
  void expect_untouched() {
    constexpr uint64_t kOwners = 77;
    fill(memory_->bytes(), kOwners);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    do ASSERT_EQ(first_difference(memory_->bytes(), kOwners), std::nullopt) << "a peer wrote after its right had gone";
    while (std::chrono::steady_clock::now() < until);
  }

 private:
  static constexpr uint64_t kBefore = 76;

  template <class Change>
  void for_each(Change&& change) {
    for (const QpHandle& qp : queue_pairs_) EXPECT_EQ(change(qp.get()), 0);
  }

  bool something_arrives() {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    std::vector<uint8_t> expected(64);
    fill(expected, kBefore);
    while (std::chrono::steady_clock::now() < deadline) {
      for (uint32_t i = 0; i < expected.size(); ++i) {
        const std::atomic_ref<uint8_t> byte(memory_->data()[i]);
        if (byte.load(std::memory_order_relaxed) != expected[i]) return true;
      }
      std::this_thread::yield();
    }
    return false;
  }

  std::mt19937 random_{42};
  std::unique_ptr<Responder> writers_;
  std::optional<Side> side_;
  std::optional<Memory> memory_;
  const Memory other_memory_{MemoryKind::anonymous, 4096};
  MrHandle region_;
  std::vector<QpHandle> queue_pairs_;
};
INSTANTIATE_TEST_SUITE_P(Each, Revocation,
                         testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous),
                                          testing::Values(MemoryKind::anonymous, MemoryKind::file),
                                          testing::Values(Taking::deregister, Taking::reregister, Taking::destroy,
                                                          Taking::to_error, Taking::to_reset, Taking::narrow)),
                         parameters_name);

TEST_P(Revocation, NothingLandsAfterTheCallHasReturned) {
  const int rounds = test_everything() ? 1000 : 25;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    begin();
    take_away();
    expect_untouched();
    end();
  }
}

}  // namespace
}  // namespace verbatim::conformance
