// Nothing lands after a call that takes rights away has returned: ibv_dereg_mr, ibv_rereg_mr, ibv_destroy_qp,
// ibv_modify_qp to ERR, to RESET, or to fewer access flags. Many writers are at it all the time, here and in another
// process.
#include "conformance/support/written_memory.h"

namespace verbatim::conformance {
namespace {

enum class Taking { deregister, reregister, destroy, to_error, to_reset, narrow };

std::string name(Taking taking) {
  constexpr const char* kNames[] = {"Deregister", "Reregister", "Destroy", "ToError", "ToReset", "Narrow"};
  return kNames[static_cast<int>(taking)];
}

using Parameters = std::tuple<Setting, MemoryKind, Taking>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return writing_name(std::get<0>(info.param), std::get<1>(info.param)) + name(std::get<2>(info.param));
}

// The owner of the memory is this process; the writers are what it defends itself against.
class Revocation : public WrittenMemory, public testing::WithParamInterface<Parameters> {
 protected:
  Revocation() { set_up(std::get<0>(GetParam()), std::get<1>(GetParam())); }

  // Everything is connected, the writers write, and some of it has arrived.
  void begin() {
    region_ = side_->register_memory(*memory_);
    connect_writers();
    for (uint32_t i = 0; i < kWriters; ++i) begin_writing(i, region_->rkey);
    let_them_write();
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
    end_writing();
    region_.reset();
  }

 private:
  template <class Change>
  void for_each(Change&& change) {
    for (const QpHandle& qp : queue_pairs_) EXPECT_EQ(change(qp.get()), 0);
  }

  const Memory other_memory_{MemoryKind::anonymous, 4096};
  MrHandle region_;
};
INSTANTIATE_TEST_SUITE_P(Each, Revocation,
                         testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous,
                                                          Setting::other_process_unreachable),
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
