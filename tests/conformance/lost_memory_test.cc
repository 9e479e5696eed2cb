// Memory that its owner takes away while it is registered, which a NIC would have pinned: whoever uses it gets an error
// completion, no signal, and the two processes go on.
#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

struct Loss {
  const char* name;
  Setting setting;
  bool by_truncation;
};
constexpr Loss kLosses[] = {
    {"TruncatedFile", Setting::other_process_file, true},
    {"UnmappedFile", Setting::other_process_file, false},
    {"UnmappedAnonymous", Setting::other_process_anonymous, false},
    {"UnmappedUnreachable", Setting::other_process_unreachable, false},
};
constexpr Operation kOperations[] = {
    {IBV_QPT_RC, IBV_WR_RDMA_WRITE},
    {IBV_QPT_RC, IBV_WR_RDMA_READ},
    {IBV_QPT_RC, IBV_WR_SEND},
    {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QPT_UC, IBV_WR_RDMA_WRITE},
    {IBV_QPT_UC, IBV_WR_SEND},
    {IBV_QPT_XRC_SEND, IBV_WR_RDMA_WRITE},
    {IBV_QPT_XRC_SEND, IBV_WR_SEND},
};

class LostMemory : public PairTest, public testing::WithParamInterface<std::tuple<Loss, Operation>> {
 protected:
  LostMemory() {
    set_up(loss().setting, operation().opcode, kLength, operation().type, operation().extended());
    remote_ = far_->register_memory(kLength, kAccess);
  }
  const Loss& loss() const { return std::get<0>(GetParam()); }
  const Operation& operation() const { return std::get<1>(GetParam()); }
  bool reliable() const { return operation().type != IBV_QPT_UC; }
  // What a peer has mapped itself stays there.
  bool is_reached_all_the_same() const {
    return loss().setting == Setting::other_process_file && !loss().by_truncation && operation().opcode != IBV_WR_SEND;
  }

  Request request(uint64_t id) const {
    Request request = PairTest::request(id, 0, operation().is_atomic() ? 8 : kBytes);
    request.compare_add = 1;
    return request;
  }
  void connect() { PairTest::connect({.access = kAccess}, {.access = kAccess}); }
  void post_receive(uint64_t id) {
    if (!operation().takes_receive()) return;
    ASSERT_EQ(far_->post_receive(0, id, {{0, kBytes}}), 0);
  }
  void expect_done(uint64_t id) {
    ASSERT_NO_FATAL_FAILURE(post_receive(id));
    ASSERT_EQ(post(request(id)), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
    if (!operation().takes_receive()) return;
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->status, IBV_WC_SUCCESS) << ibv_wc_status_str(received->status);
  }

  // The same two queue pairs, connected anew, with memory that is there.
  void expect_to_go_on() {
    ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
    while (near_->poll(std::chrono::nanoseconds(0)) || far_->poll(std::chrono::milliseconds(0))) {
    }
    connect();
    expect_done(3);
  }

  static constexpr uint32_t kBytes = 12'000;  // a message of it is fetched, not carried
};
INSTANTIATE_TEST_SUITE_P(Each, LostMemory, testing::Combine(testing::ValuesIn(kLosses), testing::ValuesIn(kOperations)),
                         [](const auto& info) { return std::get<0>(info.param).name + name(std::get<1>(info.param)); });

TEST_P(LostMemory, OfThePeerFailsTheRequest) {
  connect();
  ASSERT_NO_FATAL_FAILURE(expect_done(1));
  far_->lose_memory(loss().by_truncation);
  ASSERT_NO_FATAL_FAILURE(post_receive(2));
  ASSERT_EQ(post(request(2)), kAllPosted);
  const bool fails = reliable() && !is_reached_all_the_same();
  EXPECT_EQ(next(), fails ? failed(2, IBV_WC_REM_OP_ERR) : succeeded(2));
  EXPECT_EQ(state_of(qp_.get()), fails ? IBV_QPS_ERR : IBV_QPS_RTS);

  remote_ = far_->register_memory(kLength, kAccess);
  expect_to_go_on();
}

TEST_P(LostMemory, OfItsOwnFailsTheRequest) {
  connect();
  ASSERT_NO_FATAL_FAILURE(expect_done(1));
  memory_->unmap();
  ASSERT_NO_FATAL_FAILURE(post_receive(2));
  ASSERT_EQ(post(request(2)), kAllPosted);
  // A peer that fetches a message has mapped the file.
  const bool fails = loss().setting != Setting::other_process_file || operation().opcode != IBV_WR_SEND;
  EXPECT_EQ(next(), fails ? failed(2, IBV_WC_LOC_PROT_ERR) : succeeded(2));
  EXPECT_EQ(state_of(qp_.get()), !fails ? IBV_QPS_RTS : reliable() ? IBV_QPS_ERR : IBV_QPS_SQE);

  region_.reset();
  memory_.emplace(MemoryKind::anonymous, kLength);
  region_ = near_->register_memory(*memory_, kAccess);
  expect_to_go_on();
}

}  // namespace
}  // namespace verbatim::conformance
