// Nothing lands through a memory window after its rights have gone: when ibv_dealloc_mw has returned, when the request
// that binds a type 1 window anew or invalidates one of type 2 has completed, or when the message of the peer that
// invalidates it has been received. Many writers are at it all the time, here and in another process.
#include "conformance/support/window.h"
#include "conformance/support/written_memory.h"

namespace verbatim::conformance {
namespace {

enum class Taking { deallocate_type_1, deallocate_type_2, rebind, invalidate, invalidated_by_peer };

std::string name(Taking taking) {
  constexpr const char* kNames[] = {"DeallocateType1", "DeallocateType2", "Rebind", "Invalidate", "InvalidatedByPeer"};
  return kNames[static_cast<int>(taking)];
}

using Parameters = std::tuple<Setting, MemoryKind, Taking>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return writing_name(std::get<0>(info.param), std::get<1>(info.param)) + name(std::get<2>(info.param));
}

// One window of type 1 for all writers, or one of type 2 for each, since it is good for one queue pair only.
class WindowRevocation : public WrittenMemory, public testing::WithParamInterface<Parameters> {
 protected:
  WindowRevocation() {
    set_up(std::get<0>(GetParam()), std::get<1>(GetParam()));
    region_ = side_->register_memory(*memory_, kEveryAccess | IBV_ACCESS_MW_BIND);
  }

  // Everything is bound and connected, the writers write, and some of it has arrived.
  void begin() {
    connect_writers();
    const bool each_its_own = type() == IBV_MW_TYPE_2;
    for (uint32_t i = 0; i < kWriters; ++i) {
      if (each_its_own || windows_.empty()) bind_another(queue_pairs_[i].get());
      begin_writing(i, windows_.back()->rkey);
    }
    let_them_write();
  }

  // After it the writers have no right any more.
  void take_away() {
    switch (taking()) {
      case Taking::deallocate_type_1:
      case Taking::deallocate_type_2:
        return windows_.clear();
      case Taking::rebind: {
        // The same range; only the key is another.
        const uint32_t before = windows_[0]->rkey;
        bind_window_anew(*side_, windows_[0].get(), range());
        EXPECT_NE(windows_[0]->rkey, before);
        return;
      }
      case Taking::invalidate:
        for (uint32_t i = 0; i < kWriters; ++i) invalidate_window(*side_, queue_pairs_[i].get(), windows_[i].get());
        return;
      case Taking::invalidated_by_peer:
        for (uint32_t i = 0; i < kWriters; ++i) {
          ibv_recv_wr receive{.wr_id = i};
          ibv_recv_wr* bad = nullptr;
          ASSERT_EQ(ibv_post_recv(queue_pairs_[i].get(), &receive, &bad), 0);
          EXPECT_EQ(writers_->post_send(i, {.opcode = IBV_WR_SEND_WITH_INV, .immediate = windows_[i]->rkey}), 0);
        }
        for (uint32_t i = 0; i < kWriters; ++i) {
          const std::optional<ibv_wc> received = side_->poll();
          ASSERT_TRUE(received);
          EXPECT_EQ(received->status, IBV_WC_SUCCESS) << ibv_wc_status_str(received->status);
          EXPECT_TRUE(received->wc_flags & IBV_WC_WITH_INV);
        }
        return;
    }
  }

  void end() {
    end_writing();
    windows_.clear();
  }

 private:
  Taking taking() const { return std::get<2>(GetParam()); }
  ibv_mw_type type() const {
    return taking() == Taking::deallocate_type_1 || taking() == Taking::rebind ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  }

  ibv_mw_bind_info range() const {
    return {
        .mr = region_.get(), .addr = memory_->address(), .length = kLength, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  }
  void bind_another(ibv_qp* qp) {
    windows_.emplace_back(ibv_alloc_mw(side_->pd(), type()));
    ASSERT_TRUE(windows_.back()) << strerror(errno);
    bind_window(*side_, qp, windows_.back().get(), range());
  }

  MrHandle region_;
  std::vector<MwHandle> windows_;
};
INSTANTIATE_TEST_SUITE_P(Each, WindowRevocation,
                         testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous,
                                                          Setting::other_process_unreachable),
                                          testing::Values(MemoryKind::anonymous, MemoryKind::file),
                                          testing::Values(Taking::deallocate_type_1, Taking::deallocate_type_2,
                                                          Taking::rebind, Taking::invalidate,
                                                          Taking::invalidated_by_peer)),
                         parameters_name);

TEST_P(WindowRevocation, NothingLandsAfterItHasEnded) {
  const int rounds = test_everything() ? 200 : 15;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    begin();
    take_away();
    expect_untouched();
    end();
  }
}

}  // namespace
}  // namespace verbatim::conformance
