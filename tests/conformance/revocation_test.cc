// Nothing lands after a call that takes rights away has returned: ibv_dereg_mr, ibv_rereg_mr to other memory, to fewer
// access flags or to another PD, ibv_destroy_qp, ibv_modify_qp to ERR, to RESET, or to fewer access flags. Many writers
// are at it all the time, here and in another process, which may be stopped meanwhile.
#include <signal.h>
#include <sys/rseq.h>
#include <sys/wait.h>

#include <span>

#include "conformance/support/written_memory.h"

namespace verbatim::conformance {
namespace {

enum class Taking { deregister, reregister, reregister_access, reregister_pd, destroy, to_error, to_reset, narrow };
constexpr Taking kEveryTaking[] = {Taking::deregister,    Taking::reregister, Taking::reregister_access,
                                   Taking::reregister_pd, Taking::destroy,    Taking::to_error,
                                   Taking::to_reset,      Taking::narrow};
// What stops messages: access flags are for one-sided operations only.
constexpr Taking kTakingsOfMessages[] = {Taking::deregister, Taking::reregister, Taking::reregister_pd,
                                         Taking::destroy,    Taking::to_error,   Taking::to_reset};

std::string name(Taking taking) {
  constexpr const char* kNames[] = {"Deregister", "Reregister", "ReregisterAccess", "ReregisterPd",
                                    "Destroy",    "ToError",    "ToReset",          "Narrow"};
  return kNames[static_cast<int>(taking)];
}

// The owner of the memory is this process; the writers are what it defends itself against.
class RevocationTest : public WrittenMemory {
 protected:
  // After each of them in turn, again and again.
  void expect_nothing_lands_after(std::span<const Taking> takings, size_t rounds) {
    if (test_everything()) rounds = 250;
    for (size_t round = 0; round < rounds && !HasFailure(); ++round) {
      const Taking taking = takings[round % takings.size()];
      SCOPED_TRACE(name(taking));
      begin();
      take_away(taking);
      expect_untouched();
      end_writing();
      region_.reset();
    }
  }

  // Everything is connected, the writers write, and some of it has arrived.
  void begin() {
    region_ = side_->register_memory(*memory_, kAccess);
    connect_writers();
    for (uint32_t i = 0; i < kWriters; ++i) {
      if (operation_.opcode == IBV_WR_SEND) post_receives(i, region_->lkey);
      begin_writing(i, region_->rkey);
    }
    let_them_write();
  }

  // After it the writers have no right any more.
  void take_away(Taking taking) {
    switch (taking) {
      case Taking::deregister:
        return region_.reset();
      case Taking::reregister:
        EXPECT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other_memory_.data(), 4096, 0),
                  0);
        return;
      case Taking::reregister_access:
        EXPECT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kFewer), 0);
        return;
      case Taking::reregister_pd:
        EXPECT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_PD, side_->other_pd(), nullptr, 0, 0), 0);
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
          attributes.qp_access_flags = kFewer;
          return ibv_modify_qp(qp, &attributes, IBV_QP_ACCESS_FLAGS);
        });
    }
  }

  template <class Change>
  void for_each(Change&& change) {
    for (const QpHandle& qp : queue_pairs_) EXPECT_EQ(change(qp.get()), 0);
  }

  MrHandle region_;

 private:
  static constexpr int kFewer = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

  const Memory other_memory_{MemoryKind::anonymous, 4096};
};

using Parameters = std::tuple<Setting, MemoryKind, Taking>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return writing_name(std::get<0>(info.param), std::get<1>(info.param)) + name(std::get<2>(info.param));
}

class Revocation : public RevocationTest, public testing::WithParamInterface<Parameters> {};
INSTANTIATE_TEST_SUITE_P(Each, Revocation,
                         testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous,
                                                          Setting::other_process_unreachable),
                                          testing::Values(MemoryKind::anonymous, MemoryKind::file),
                                          testing::ValuesIn(kEveryTaking)),
                         parameters_name);

TEST_P(Revocation, NothingLandsAfterTheCallHasReturned) {
  set_up(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Taking taking = std::get<2>(GetParam());
  expect_nothing_lands_after({&taking, 1}, 25);
}

// What is no RDMA WRITE of an RC queue pair, in each way that it takes from the writers to the memory.
struct Way {
  Operation operation;
  Setting writers{};
  MemoryKind memory{};
};

std::string way_name(const testing::TestParamInfo<Way>& info) {
  return writing_name(info.param.writers, info.param.memory) + name(info.param.operation);
}

constexpr Operation kFetchAdd{IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD};
constexpr Operation kSend{IBV_QPT_RC, IBV_WR_SEND};
constexpr Operation kUnreliableWrite{IBV_QPT_UC, IBV_WR_RDMA_WRITE};
constexpr Operation kXrcWrite{IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE};

class RevocationOfOthers : public RevocationTest, public testing::WithParamInterface<Way> {};
INSTANTIATE_TEST_SUITE_P(Each, RevocationOfOthers,
                         testing::Values(Way{kFetchAdd, Setting::in_process, MemoryKind::anonymous},
                                         Way{kFetchAdd, Setting::other_process_anonymous, MemoryKind::anonymous},
                                         Way{kFetchAdd, Setting::other_process_anonymous, MemoryKind::file},
                                         Way{kSend, Setting::in_process, MemoryKind::anonymous},
                                         Way{kSend, Setting::other_process_anonymous, MemoryKind::anonymous},
                                         Way{kSend, Setting::other_process_file, MemoryKind::anonymous},
                                         Way{kSend, Setting::other_process_unreachable, MemoryKind::anonymous},
                                         Way{kUnreliableWrite, Setting::in_process, MemoryKind::anonymous},
                                         Way{kUnreliableWrite, Setting::other_process_anonymous, MemoryKind::anonymous},
                                         Way{kUnreliableWrite, Setting::other_process_anonymous, MemoryKind::file},
                                         Way{kUnreliableWrite, Setting::other_process_unreachable,
                                             MemoryKind::anonymous},
                                         Way{kXrcWrite, Setting::in_process, MemoryKind::anonymous},
                                         Way{kXrcWrite, Setting::other_process_anonymous, MemoryKind::anonymous},
                                         Way{kXrcWrite, Setting::other_process_anonymous, MemoryKind::file},
                                         Way{kXrcWrite, Setting::other_process_unreachable, MemoryKind::anonymous}),
                         way_name);

TEST_P(RevocationOfOthers, NothingLandsAfterTheCallHasReturned) {
  const auto& [operation, writers, memory] = GetParam();
  set_up(writers, memory, operation);
  // WRITEs that are executed while they are posted make long rounds, but few of them miss the middle of one.
  const bool at_once = operation.opcode == IBV_WR_RDMA_WRITE && writers != Setting::other_process_unreachable;
  const size_t rounds = at_once ? 24 : 48;
  if (operation.opcode == IBV_WR_SEND)
    expect_nothing_lands_after(kTakingsOfMessages, rounds);
  else
    expect_nothing_lands_after(kEveryTaking, rounds);
}

// Writers that are stopped in the middle of it are waited for a tenth of a second, and turn back when they go on.
class RevocationOfStopped : public RevocationTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    if (__rseq_size == 0) GTEST_SKIP() << "no restartable sequences here: stopped writers are waited for";
  }

  void stop_writers() {
    ASSERT_EQ(kill(writers_->pid(), SIGSTOP), 0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(writers_->pid()), &info, WSTOPPED | WNOWAIT), 0);
  }

  // How long it took to take away what they have, in milliseconds.
  int64_t take_away_while_they_are_stopped(Taking taking) {
    const auto start = std::chrono::steady_clock::now();
    take_away(taking);
    const auto held = std::chrono::steady_clock::now() - start;
    expect_untouched([&] { EXPECT_EQ(kill(writers_->pid(), SIGCONT), 0); });
    return std::chrono::duration_cast<std::chrono::milliseconds>(held).count();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, RevocationOfStopped,
                         testing::Values(Way{{}, Setting::other_process_anonymous, MemoryKind::anonymous},
                                         Way{{}, Setting::other_process_anonymous, MemoryKind::file},
                                         Way{kFetchAdd, Setting::other_process_anonymous, MemoryKind::file},
                                         Way{kUnreliableWrite, Setting::other_process_anonymous, MemoryKind::file}),
                         way_name);

TEST_P(RevocationOfStopped, WritersAreNotWaitedForAndWriteNothingWhenTheyGoOn) {
  const auto& [operation, writers, memory] = GetParam();
  set_up(writers, memory, operation);
  const int rounds = test_everything() ? 50 : 2;
  int held = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const Taking taking : kEveryTaking) {
      SCOPED_TRACE(name(taking));
      begin();
      ASSERT_NO_FATAL_FAILURE(stop_writers());
      held += take_away_while_they_are_stopped(taking) >= 100;
      ASSERT_FALSE(HasFailure());
      end_writing();
      region_.reset();
    }
  }
  // An atomic is too short to be stopped in the middle of it often.
  EXPECT_TRUE(held > 0 || operation.is_atomic()) << "nobody was stopped in the middle of it";
}

}  // namespace
}  // namespace verbatim::conformance
