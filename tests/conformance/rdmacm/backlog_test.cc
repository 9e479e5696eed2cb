// The backlog of rdma_listen(3): a request beyond it is dropped, and comes again.
#include "conformance/rdmacm/support/two_ends.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

class Backlog : public TwoEnds {
 protected:
  CmIdHandle asking() {
    CmIdHandle id = resolved_with_short_timewait();
    rdma_conn_param parameters = parameters_of_foreign_queue_pair();
    EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
    return id;
  }
  // Of the next request, whose identifier is kept.
  uint32_t take_queue_pair_number() {
    const std::optional<CmEvent> request = server_.take();
    EXPECT_EQ(name(request), "CONNECT_REQUEST");
    if (!request) return 0;
    requests_.emplace_back(request->id);
    return request->connection.qp_num;
  }

  std::vector<CmIdHandle> asking_, requests_;
};

TEST_F(Backlog, BeyondItRequestsWaitAndComeAgain) {
  listen(2);
  for (int i = 0; i < 3; ++i) asking_.push_back(asking());
  const uint32_t first = take_queue_pair_number();
  EXPECT_EQ(take_queue_pair_number(), first + 1);
  expect_quiet();
  EXPECT_EQ(take_queue_pair_number(), first + 2) << "4.3 s later (IBTA 12.7.26: 4.096 us * 2^20)";
  expect_quiet();
}

TEST_F(Backlog, HasRoomAgainForEachRequestThatIsTaken) {
  listen(1);
  for (int i = 0; i < 5; ++i) {
    asking_.push_back(asking());
    take_queue_pair_number();
  }
  expect_quiet();
}

TEST_F(Backlog, OfNoneSaidHoldsMany) {
  listen(0);
  constexpr int kMany = 300;
  for (int i = 0; i < kMany; ++i) asking_.push_back(asking());
  for (int i = 0; i < kMany; ++i) take_queue_pair_number();
  expect_quiet();
}

TEST_F(Backlog, ThatStaysFullMakesTheServerUnreachable) {
  if (!test_everything()) GTEST_SKIP() << "lasts 70 seconds: run with VERBATIM_TEST_ALL=1";
  listen(1);
  for (int i = 0; i < 2; ++i) asking_.push_back(asking());
  const std::optional<CmEvent> unreachable = client_.take(std::chrono::seconds(100));
  EXPECT_EQ(name(unreachable), "UNREACHABLE -110");
  EXPECT_EQ(unreachable->id, asking_[1].get());
  take_queue_pair_number();
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
