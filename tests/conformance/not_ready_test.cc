// A peer that does not answer: not yet ready, no longer there, or dead.
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// 33.6 ms, twice.
constexpr Wiring kImpatient{.timeout = 13, .retry_cnt = 1};
// 34 s: whoever gives up well before it did not wait for it.
constexpr Wiring kPatient{.timeout = 20, .retry_cnt = 7};
constexpr Wiring kForEver{.timeout = 0, .retry_cnt = 0};

class NotReady : public EachWay {
 protected:
  void far_to_init() { ASSERT_EQ(far_->modify(0, init_attributes({}), kInitMask), 0); }
  // From INIT.
  void far_to_rtr() { ASSERT_EQ(far_->modify(0, rtr_attributes({}, near_->address_of(qp_.get())), kRtrMask), 0); }

  void expect_patience_exhausted(const Wiring& wiring) {
    const auto start = Clock::now();
    EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64, 0), request(3, 0, 64)}), kAllPosted);
    EXPECT_EQ(next(), failed(1, IBV_WC_RETRY_EXC_ERR));
    const auto waited = Clock::now() - start;
    EXPECT_GE(waited, wiring.patience());
    EXPECT_LT(waited, wiring.patience() + std::chrono::seconds(5));
    EXPECT_EQ(next(), flushed(2));
    EXPECT_EQ(next(), flushed(3));
    EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NotReady, every_way(), way_name);

TEST_P(NotReady, PeerInResetExhaustsTheRetries) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kImpatient), 0);
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, PeerInInitExhaustsTheRetries) {
  far_to_init();
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kImpatient), 0);
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, PeerInErrorExhaustsTheRetries) {
  connect(kImpatient);
  EXPECT_EQ(far_->to_state(0, IBV_QPS_ERR), 0);
  expect_patience_exhausted(kImpatient);
  EXPECT_FALSE(far_->next_event(std::chrono::milliseconds(0)));
}

TEST_P(NotReady, PeerBackInResetExhaustsTheRetries) {
  connect(kImpatient);
  EXPECT_EQ(post(request(9, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(9));
  EXPECT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, DestroyedPeerExhaustsTheRetries) {
  connect(kImpatient);
  EXPECT_EQ(far_->destroy_queue_pair(), 0);
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, QueuePairNumberOfNobodyExhaustsTheRetries) {
  const Address nobody{.qpn = far_address_.qpn ^ 0x800, .gid = far_address_.gid};
  ASSERT_EQ(conformance::connect(qp_.get(), nobody, kImpatient), 0);
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, PeerThatIsConnectedToAnotherExhaustsTheRetries) {
  const QpHandle other = near_->create_queue_pair();
  ASSERT_EQ(far_->connect(0, near_->address_of(other.get())), 0);
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kImpatient), 0);
  expect_patience_exhausted(kImpatient);
  EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
  EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
}

TEST_P(NotReady, NothingIsWrittenWhileThePeerIsInInit) {
  far_->fill(0, kLength, 1);
  fill(memory_->bytes(), 2);
  far_to_init();
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kImpatient), 0);
  expect_patience_exhausted(kImpatient);
  EXPECT_EQ(far_->first_difference(0, kLength, 1, 0), std::nullopt);
  EXPECT_EQ(first_difference(memory_->bytes(), 2), std::nullopt);
}

TEST_P(NotReady, PeerThatBecomesReadyInTimeIsServedInOrder) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);
  EXPECT_EQ(post({request(1, 0, 64), request(2, 64, 64), request(3, 128, 64)}), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(10)));
  far_to_init();
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(10)));
  far_to_rtr();
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(next(), succeeded(id));
}

TEST_P(NotReady, ReadyToReceiveIsEnough) {
  far_to_init();
  far_to_rtr();
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(NotReady, DrainedPeerStillReceives) {
  connect();
  EXPECT_EQ(far_->to_state(0, IBV_QPS_SQD), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(NotReady, TimeoutZeroWaitsForEver) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kForEver), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(300)));
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  far_to_init();
  far_to_rtr();
  EXPECT_EQ(next(), succeeded(1));
}

TEST_P(NotReady, EachRequestHasAllTheTime) {
  // The clock begins when a request becomes the oldest, not when the peer was first seen missing.
  connect(kImpatient);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->to_state(0, IBV_QPS_RESET), 0);
  std::this_thread::sleep_for(2 * kImpatient.patience());
  expect_patience_exhausted(kImpatient);
}

TEST_P(NotReady, GivesUpWithoutBeingPolled) {
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kImpatient), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  const auto deadline = Clock::now() + kSoon;
  while (state_of(qp_.get()) != IBV_QPS_ERR && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_ERR);
  EXPECT_EQ(next(), failed(1, IBV_WC_RETRY_EXC_ERR));
}

class DeadPeer : public NotReady {
 protected:
  // After it the two processes know each other, if not by the queue pairs under test.
  void get_acquainted() {
    const QpHandle other = near_->create_queue_pair();
    const Address far_other = far_->create_queue_pair();
    ASSERT_EQ(far_->connect(1, near_->address_of(other.get())), 0);
    ASSERT_EQ(conformance::connect(other.get(), far_other), 0);
    EXPECT_EQ(conformance::post(other.get(), {request(9, 0, 64)}), kAllPosted);
    const std::optional<ibv_wc> completion = near_->poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
  }

  void expect_dead_at_once() {
    const auto start = Clock::now();
    EXPECT_EQ(post({request(1, 0, 64), request(2, 0, 64)}), kAllPosted);
    EXPECT_EQ(next(), failed(1, IBV_WC_RETRY_EXC_ERR));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(next(), flushed(2));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, DeadPeer,
                         testing::Combine(other_processes(), testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ)),
                         way_name);

TEST_P(DeadPeer, IsNoticedAtOnceWhenItWasInUse) {
  connect(kPatient);
  EXPECT_EQ(post(request(9, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(9));
  far_->kill();
  expect_dead_at_once();
}

TEST_P(DeadPeer, IsNoticedAtOnceByAQueuePairThatNeverSentToIt) {
  connect(kPatient);
  get_acquainted();
  far_->kill();
  expect_dead_at_once();
}

TEST_P(DeadPeer, IsNoticedAtOnceWithATimeoutOfForEver) {
  connect(kForEver);
  EXPECT_EQ(post(request(9, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(9));
  far_->kill();
  expect_dead_at_once();
}

TEST_P(DeadPeer, IsNoticedAtOnceByARequestThatWaitsForItToBecomeReady) {
  get_acquainted();
  far_to_init();
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_, kPatient), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_TRUE(no_completion(std::chrono::milliseconds(20)));
  const auto start = Clock::now();
  far_->kill();
  EXPECT_EQ(next(), failed(1, IBV_WC_RETRY_EXC_ERR));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST_P(DeadPeer, InTheMiddleOfATransferFailsTheOldestAndFlushesTheRest) {
  constexpr uint32_t kLarge = 8 << 20;
  remote_ = far_->register_memory(kLarge);
  const Memory large(MemoryKind::anonymous, kLarge);
  const MrHandle region = near_->register_memory(large);
  connect(kPatient);
  get_acquainted();
  std::vector<Request> requests;
  for (uint64_t id = 0; id < 64; ++id)
    requests.push_back({id, opcode_, {{large.address(), kLarge, region->lkey}}, remote_.address, remote_.rkey});
  EXPECT_EQ(post(requests), kAllPosted);
  far_->kill();
  uint64_t id = 0;
  Outcome outcome = next();
  for (; id < 64 && outcome == succeeded(id); ++id) outcome = next();
  ASSERT_LT(id, 64u) << "512 MiB were copied faster than a process dies";
  EXPECT_EQ(outcome, failed(id, IBV_WC_RETRY_EXC_ERR));
  for (++id; id < 64; ++id) EXPECT_EQ(next(), flushed(id));
}

TEST_P(DeadPeer, IsReplacedByANewProcessAfterAReset) {
  connect(kPatient);
  EXPECT_EQ(post(request(9, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(9));
  far_->kill();
  expect_dead_at_once();
  far_ = Responder::start(setting());
  remote_ = far_->register_memory(kLength);
  far_address_ = far_->create_queue_pair();
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_RESET), 0);
  connect();
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
}

using UnpolledRequester = EachSetting;
INSTANTIATE_TEST_SUITE_P(Each, UnpolledRequester, other_processes(), setting_name);

TEST_P(UnpolledRequester, ServesThePeerOnceItIsReady) {
  fill(memory_->bytes(), 2);
  ASSERT_EQ(conformance::connect(qp_.get(), far_address_), 0);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  ASSERT_EQ(far_->connect(0, near_->address_of(qp_.get())), 0);
  EXPECT_EQ(far_->await_last_byte(0, 0, 64, 2, 0), std::nullopt);
  EXPECT_EQ(next(), succeeded(1));
}

class StoppedPeer : public NotReady {};
INSTANTIATE_TEST_SUITE_P(Each, StoppedPeer,
                         testing::Combine(direct_processes(), testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ)),
                         way_name);

TEST_P(StoppedPeer, IsServedAsIfItRan) {
  connect(kImpatient);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  ASSERT_EQ(kill(far_->pid(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(far_->pid(), nullptr, WUNTRACED), far_->pid());
  for (uint64_t id = 2; id < 100; ++id) {
    EXPECT_EQ(post(request(id, 0, 64)), kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  }
  ASSERT_EQ(kill(far_->pid(), SIGCONT), 0);
}

class UnreachablePeer : public NotReady {};
INSTANTIATE_TEST_SUITE_P(Each, UnreachablePeer,
                         testing::Combine(testing::Values(Setting::other_process_unreachable),
                                          testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ)),
                         way_name);

TEST_P(UnreachablePeer, IsServedWhenItGoesOnHoweverLateThatIs) {
  connect(kImpatient);
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  ASSERT_EQ(kill(far_->pid(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(far_->pid(), nullptr, WUNTRACED), far_->pid());
  EXPECT_EQ(post({request(2, 0, kLength), request(3, 0, 64)}), kAllPosted);
  EXPECT_TRUE(no_completion(2 * kImpatient.patience()));
  ASSERT_EQ(kill(far_->pid(), SIGCONT), 0);
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_EQ(next(), succeeded(3));
}

// A queue pair number of nobody, in a process that is there.
class DatagramToNobody : public PairTest, public testing::WithParamInterface<Setting> {};
INSTANTIATE_TEST_SUITE_P(Each, DatagramToNobody, every_setting(), setting_name);

TEST_P(DatagramToNobody, SucceedsAndIsLost) {
  set_up(GetParam(), IBV_WR_SEND, kLength, IBV_QPT_UD);
  connect();
  const AhHandle handle = near_->create_address_handle(far_address_.gid);
  ASSERT_EQ(far_->post_receive(0, 7, {{0, 200}}), 0);
  const auto send = [&](uint64_t id, uint32_t qpn, uint32_t length) {
    EXPECT_EQ(post(Request{.id = id,
                           .opcode = IBV_WR_SEND,
                           .sges = {local(0, length)},
                           .handle = handle.get(),
                           .qpn = qpn,
                           .qkey = Wiring{}.qkey}),
              kAllPosted);
    EXPECT_EQ(next(), succeeded(id));
  };
  send(1, far_address_.qpn ^ 0x800, 64);
  send(2, far_address_.qpn, 32);
  const std::optional<ibv_wc> received = far_->poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->wr_id, 7u);
  EXPECT_EQ(received->byte_len, 40u + 32u);
}

// Whoever leads a queue pair to ERR because the peer has finished must not lose what the peer has acknowledged.
class EndOfATalk : public PairTest, public testing::WithParamInterface<Setting> {};
INSTANTIATE_TEST_SUITE_P(Each, EndOfATalk, every_setting(), setting_name);

TEST_P(EndOfATalk, WhatWasAnsweredBeforeSucceedsAndWhatWasSentBeforeIsReceived) {
  set_up(GetParam(), IBV_WR_SEND, kLength);
  connect(kPatient);
  ibv_sge sge = local(128, 64);
  ibv_recv_wr receive{.wr_id = 2, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &bad), 0);
  ASSERT_EQ(far_->post_receive(0, 7, {{0, 64}}), 0);
  EXPECT_EQ(post(Request{.id = 1, .opcode = IBV_WR_SEND, .sges = {local(0, 64)}}), kAllPosted);
  const std::optional<ibv_wc> received = far_->poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->wr_id, 7u);
  ASSERT_EQ(far_->post_send(0, {.id = 8, .opcode = IBV_WR_SEND, .piece = {0, 64}}), 0);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = next();
    EXPECT_TRUE(outcome == succeeded(1) || outcome == succeeded(2)) << i;
  }
}

// One side of a long message is killed while the receiver fetches it.
class DeathInAFetch : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  static constexpr uint32_t kLarge = 256 << 20;
  // A message in mapped memory can be fetched also after its sender's death, and to reap a large process takes long on
  // a loaded machine: so many that they outlast it.
  static constexpr uint64_t kMessages = kOrdinaryCapabilities.max_recv_wr;
  DeathInAFetch() {
    set_up(GetParam(), IBV_WR_SEND, kLarge);
    connect(kPatient);
  }
  // Where a message begins, which was zero before.
  bool has_begun() const { return std::atomic_ref<uint8_t>(*memory_->data()).load(std::memory_order_acquire) != 0; }
};
INSTANTIATE_TEST_SUITE_P(Each, DeathInAFetch, other_processes(), setting_name);

TEST_P(DeathInAFetch, OfTheReceiverFailsTheOldestAtOnce) {
  memory_->data()[0] = 1;
  std::vector<Request> requests;
  for (uint64_t id = 0; id < kMessages; ++id) {
    ASSERT_EQ(far_->post_receive(0, id, {{0, kLarge}}), 0);
    requests.push_back({.id = id, .opcode = IBV_WR_SEND, .sges = {local(0, kLarge)}});
  }
  EXPECT_EQ(post(requests), kAllPosted);
  far_->await_last_byte(0, 0, 1, 0, 0);
  const auto start = Clock::now();
  far_->kill();
  uint64_t id = 0;
  Outcome outcome = next();
  for (; id < kMessages && outcome == succeeded(id); ++id) outcome = next();
  ASSERT_LT(id, kMessages) << "all was copied faster than a process dies";
  EXPECT_EQ(outcome, failed(id, IBV_WC_RETRY_EXC_ERR));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  for (++id; id < kMessages; ++id) EXPECT_EQ(next(), flushed(id));
}

TEST_P(DeathInAFetch, OfTheSenderLeavesTheReceive) {
  ibv_sge sge = local(0, kLarge);
  for (uint64_t id = 0; id < kMessages; ++id) {
    ibv_recv_wr request{.wr_id = id, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp_.get(), &request, &bad), 0);
  }
  far_->fill(0, 64, 1);
  for (uint64_t id = 0; id < kMessages; ++id)
    ASSERT_EQ(far_->post_send(0, {.id = id, .opcode = IBV_WR_SEND, .piece = {0, kLarge}}), 0);
  const auto deadline = Clock::now() + kSoon;
  while (!has_begun() && Clock::now() < deadline) std::this_thread::yield();
  ASSERT_TRUE(has_begun());
  far_->kill();
  // Nobody tells a responder that its requester has ended.
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  ASSERT_EQ(to_state(qp_.get(), IBV_QPS_ERR), 0);
  uint64_t id = 0;
  Outcome outcome = next();
  for (; id < kMessages && outcome == succeeded(id); ++id) outcome = next();
  ASSERT_LT(id, kMessages) << "all was copied faster than a process dies";
  EXPECT_EQ(outcome, flushed(id));
  for (++id; id < kMessages; ++id) EXPECT_EQ(next(), flushed(id));
}

}  // namespace
}  // namespace verbatim::conformance
