// What a fence waits for, and what a send queue that is drained has done with messages.
#include <cstring>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kFenced = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
constexpr uint32_t kLarge = 1 << 20;

// ---- fence ----

class Fence : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  static constexpr uint32_t kRounds = 8;
  static constexpr uint32_t kRead = 12'000;
  static constexpr uint64_t kInto = kRounds * kRead;  // where the far memory gets it back
  static constexpr uint64_t kCounter = 2 * kInto;     // behind everything else

  Fence() {
    set_up(GetParam(), IBV_WR_RDMA_READ, kCounter + 4096);
    remote_ = far_->register_memory(kCounter + 4096, kAccess);
    far_->fill(0, kInto, 1);
    fill(memory_->bytes(), 2);
    connect({.access = kAccess});
  }
  // The last bytes of what the READ before it brought, which come last.
  Request give_back(uint64_t id, uint64_t round, uint32_t length, ibv_wr_opcode opcode) const {
    Request request = PairTest::request(id, (round + 1) * kRead - length, length, kFenced);
    request.opcode = opcode;
    request.remote_address = remote_.address + kInto + round * kRead;
    return request;
  }
  void expect_given_back(uint64_t round, uint32_t length) {
    EXPECT_EQ(far_->first_difference(kInto + round * kRead, length, 1, (round + 1) * kRead - length), std::nullopt)
        << "round " << round;
  }
};
INSTANTIATE_TEST_SUITE_P(Each, Fence, every_setting(), setting_name);

// READs keep their order here without a fence too: these two hold what a program may rely on, not how it comes about.
TEST_P(Fence, LetsAMessageHaveWhatTheReadBeforeItBrought) {
  std::vector<Request> requests;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint32_t length = round % 2 ? kRead : 64;
    ASSERT_EQ(far_->post_receive(0, round, {{kInto + round * kRead, length}}), 0);
    requests.push_back(request(2 * round, round * kRead, kRead));
    requests.push_back(give_back(2 * round + 1, round, length, IBV_WR_SEND));
  }
  EXPECT_EQ(post(requests), kAllPosted);
  for (uint64_t id = 0; id < requests.size(); ++id) EXPECT_EQ(next(), succeeded(id));
  for (uint64_t round = 0; round < kRounds; ++round) {
    const std::optional<ibv_wc> received = far_->poll();
    ASSERT_TRUE(received);
    EXPECT_EQ(outcome_of(*received), (Outcome{round, IBV_WC_SUCCESS, far_address_.qpn, false}));
    expect_given_back(round, round % 2 ? kRead : 64);
  }
}

TEST_P(Fence, LetsAWriteHaveWhatTheReadBeforeItBrought) {
  std::vector<Request> requests;
  for (uint64_t round = 0; round < kRounds; ++round) {
    requests.push_back(request(2 * round, round * kRead, kRead));
    requests.push_back(give_back(2 * round + 1, round, round % 2 ? kRead : 64, IBV_WR_RDMA_WRITE));
  }
  EXPECT_EQ(post(requests), kAllPosted);
  for (uint64_t id = 0; id < requests.size(); ++id) EXPECT_EQ(next(), succeeded(id));
  for (uint64_t round = 0; round < kRounds; ++round) expect_given_back(round, round % 2 ? kRead : 64);
}

TEST_P(Fence, LetsAMessageHaveWhatTheAtomicBeforeItFound) {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < kRounds; ++i) {
    ASSERT_EQ(far_->post_receive(0, i, {{8 * i, 8}}), 0);
    requests.push_back({.id = 2 * i,
                        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                        .sges = {local(8 * i, 8)},
                        .remote_address = remote_.address + kCounter,
                        .rkey = remote_.rkey,
                        .compare_add = 1});
    requests.push_back({.id = 2 * i + 1, .opcode = IBV_WR_SEND, .sges = {local(8 * i, 8)}, .flags = kFenced});
  }
  EXPECT_EQ(post(requests), kAllPosted);
  for (uint64_t id = 0; id < requests.size(); ++id) EXPECT_EQ(next(), succeeded(id));
  for (uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(far_->poll());
    uint64_t found;
    std::memcpy(&found, far_->bytes_at(8 * i).data(), sizeof found);
    EXPECT_EQ(found, i);
  }
}

// ---- a drained send queue ----

// Messages that travel with the request, and such as the receiver fetches.
class DrainedMessages : public PairTest, public testing::WithParamInterface<std::tuple<Setting, uint32_t>> {
 protected:
  DrainedMessages() {
    set_up(std::get<0>(GetParam()), IBV_WR_SEND, kLarge);
    far_->fill(0, kLarge, 1);
    fill(memory_->bytes(), 2);
    connect();
    // The two ends know each other from here on.
    post_receive(0);
    EXPECT_EQ(post(message(0)), kAllPosted);
    EXPECT_EQ(next(), succeeded(0));
    expect_received(0);
  }
  static uint32_t length() { return std::get<1>(GetParam()); }

  Request message(uint64_t id) const { return request(id, 0, length()); }
  void post_receive(uint64_t id) { ASSERT_EQ(far_->post_receive(0, id, {{0, length()}}), 0); }
  void expect_received(uint64_t id) {
    const std::optional<ibv_wc> completion = far_->poll();
    ASSERT_TRUE(completion) << "receive " << id;
    EXPECT_EQ(outcome_of(*completion), (Outcome{id, IBV_WC_SUCCESS, far_address_.qpn, false}));
    EXPECT_EQ(far_->first_difference(0, length(), 2, 0), std::nullopt);
  }
  void begin_draining() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  }
  void expect_drained() {
    const std::optional<ibv_async_event> event = near_->take_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(event->element.qp, qp_.get());
    EXPECT_FALSE(near_->take_event({}));
    EXPECT_EQ(query(qp_.get()).sq_draining, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, DrainedMessages, testing::Combine(every_setting(), testing::Values(64u, kLarge)),
                         [](const auto& info) {
                           return name(std::get<0>(info.param)) + (std::get<1>(info.param) == 64 ? "Short" : "Long");
                         });

TEST_P(DrainedMessages, HaveAllBeenAnsweredOrNotBegun) {
  constexpr uint64_t kCount = 8;
  std::vector<Request> messages;
  for (uint64_t id = 1; id <= kCount; ++id) {
    post_receive(id);
    messages.push_back(message(id));
  }
  EXPECT_EQ(post(messages), kAllPosted);
  begin_draining();
  expect_drained();
  uint64_t begun = 0;
  while (const std::optional<ibv_wc> completion = near_->poll({}))
    EXPECT_EQ(outcome_of(*completion), succeeded(++begun));
  // What completed was received, and no more.
  for (uint64_t id = 1; id <= begun; ++id) expect_received(id);
  EXPECT_FALSE(far_->poll(std::chrono::milliseconds(20)));
  EXPECT_TRUE(no_completion());
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  for (uint64_t id = begun + 1; id <= kCount; ++id) {
    EXPECT_EQ(next(), succeeded(id));
    expect_received(id);
  }
}

TEST_P(DrainedMessages, AreWaitedForAlthoughTheirReceiverHasNoReceiveYet) {
  EXPECT_EQ(post(message(1)), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(10)));
  begin_draining();
  EXPECT_EQ(post(message(2)), kAllPosted);
  EXPECT_FALSE(near_->take_event(std::chrono::milliseconds(20)));
  post_receive(1);
  post_receive(2);
  expect_drained();
  const std::optional<ibv_wc> completion = near_->poll({});
  ASSERT_TRUE(completion) << "the event came before the completion";
  EXPECT_EQ(outcome_of(*completion), succeeded(1));
  expect_received(1);
  EXPECT_FALSE(far_->poll(std::chrono::milliseconds(20)));
  EXPECT_TRUE(no_completion());
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(next(), succeeded(2));
  expect_received(2);
}

}  // namespace
}  // namespace verbatim::conformance
