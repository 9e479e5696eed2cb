// What a peer reaches through a memory window of this process: the range it is bound to, with the rights it grants, by
// the key it has, and for type 2 through the queue pair that bound it. All else is REM_ACCESS_ERR, and changes nothing.
#include "conformance/support/pair.h"
#include "conformance/support/window.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kLength = 65536;
constexpr uint64_t kStart = 4099;  // no multiple of anything
constexpr uint32_t kWindow = 8191;
constexpr uint64_t kNearSeed = 1;
constexpr uint64_t kFarSeed = 2;
constexpr unsigned kReadAndWrite = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

using Parameters = std::tuple<Setting, MemoryKind, ibv_mw_type>;

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return std::string(is_other_process(std::get<0>(info.param)) ? "PeerElsewhere" : "PeerHere") +
         (std::get<1>(info.param) == MemoryKind::file ? "File" : "Anonymous") +
         (std::get<2>(info.param) == IBV_MW_TYPE_1 ? "Type1" : "Type2");
}

// Two queue pairs, each connected to one of the peer's, and a window that the first of them has bound.
class WindowOfPeer : public testing::TestWithParam<Parameters> {
 protected:
  WindowOfPeer() : peer_(Responder::start(std::get<0>(GetParam()))), memory_(std::get<1>(GetParam()), kLength) {
    region_ = side_.register_memory(memory_, kEveryAccess | IBV_ACCESS_MW_BIND);
    peer_->register_memory(kLength);
    for (uint32_t i = 0; i < 2; ++i) {
      const Address far = peer_->create_queue_pair();
      queue_pairs_[i] = side_.create_queue_pair();
      EXPECT_EQ(connect(queue_pairs_[i].get(), far), 0);
      EXPECT_EQ(peer_->connect(i, side_.address_of(queue_pairs_[i].get())), 0);
    }
    window_.reset(ibv_alloc_mw(side_.pd(), type()));
    EXPECT_TRUE(window_) << strerror(errno);
    fill(memory_.bytes(), kNearSeed);
    peer_->fill(0, kLength, kFarSeed);
  }
  ~WindowOfPeer() override {
    for (QpHandle& qp : queue_pairs_) qp.reset();
    peer_.reset();
  }

  static ibv_mw_type type() { return std::get<2>(GetParam()); }
  uint64_t start() const { return memory_.address(kStart); }

  void bind(unsigned access = kReadAndWrite, uint64_t offset = kStart) {
    bind_window(side_, queue_pairs_[0].get(), window_.get(), range(access, offset));
  }
  ibv_mw_bind_info range(unsigned access = kReadAndWrite, uint64_t offset = kStart) const {
    return {.mr = region_.get(), .addr = memory_.address(offset), .length = kWindow, .mw_access_flags = access};
  }

  // How the peer's request ends, between the start of its memory and that address.
  ibv_wc_status access(ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t queue_pair = 0) {
    return access(opcode, address, length, queue_pair, window_->rkey);
  }
  ibv_wc_status access(ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t queue_pair, uint32_t key) {
    EXPECT_EQ(
        peer_->post_send(queue_pair, {.opcode = opcode, .piece = {0, length}, .remote_address = address, .rkey = key}),
        0);
    const std::optional<ibv_wc> completion = peer_->poll();
    EXPECT_TRUE(completion);
    return completion ? completion->status : IBV_WC_GENERAL_ERR;
  }

  void expect_refused(ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t queue_pair = 0) {
    expect_key_refused(window_->rkey, opcode, address, length, queue_pair);
  }
  // That neither memory changes and both ends are broken as after any such error; then they are connected again.
  void expect_key_refused(uint32_t key, ibv_wr_opcode opcode, uint64_t address, uint32_t length,
                          uint32_t queue_pair = 0) {
    EXPECT_EQ(access(opcode, address, length, queue_pair, key), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(first_difference(memory_.bytes(), kNearSeed), std::nullopt);
    EXPECT_EQ(peer_->first_difference(0, kLength, kFarSeed, 0), std::nullopt);
    std::optional<ibv_async_event> event = side_.next_event(kSoon);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(event->element.qp, queue_pairs_[queue_pair].get());
    ibv_ack_async_event(&*event);
    EXPECT_EQ(state_of(queue_pairs_[queue_pair].get()), IBV_QPS_ERR);
    reconnect(queue_pair);
  }

  Side side_;
  std::unique_ptr<Responder> peer_;
  const Memory memory_;
  MrHandle region_;
  QpHandle queue_pairs_[2];
  MwHandle window_;

 private:
  void reconnect(uint32_t index) {
    ibv_qp* const qp = queue_pairs_[index].get();
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_DEST_QPN, &init), 0);
    const Address far{attributes.dest_qp_num, side_.gid()};
    ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
    ASSERT_EQ(peer_->to_state(index, IBV_QPS_RESET), 0);
    ASSERT_EQ(connect(qp, far), 0);
    ASSERT_EQ(peer_->connect(index, side_.address_of(qp)), 0);
  }
};
class WindowOfType1 : public WindowOfPeer {};
class WindowOfType2 : public WindowOfPeer {};

template <class... Types>
auto windows_of(Types... types) {
  return testing::Combine(testing::Values(Setting::in_process, Setting::other_process_anonymous),
                          testing::Values(MemoryKind::anonymous, MemoryKind::file), testing::Values(types...));
}
INSTANTIATE_TEST_SUITE_P(Each, WindowOfPeer, windows_of(IBV_MW_TYPE_1, IBV_MW_TYPE_2), parameters_name);
INSTANTIATE_TEST_SUITE_P(Each, WindowOfType1, windows_of(IBV_MW_TYPE_1), parameters_name);
INSTANTIATE_TEST_SUITE_P(Each, WindowOfType2, windows_of(IBV_MW_TYPE_2), parameters_name);

TEST_P(WindowOfPeer, IsWrittenFromItsFirstByteToItsLast) {
  bind();
  ASSERT_EQ(access(IBV_WR_RDMA_WRITE, start(), kWindow), IBV_WC_SUCCESS);
  EXPECT_EQ(first_difference(memory_.bytes(kStart, kWindow), kFarSeed), std::nullopt);
  EXPECT_EQ(first_difference(memory_.bytes(0, kStart), kNearSeed), std::nullopt);
  constexpr uint64_t kEnd = kStart + kWindow;
  EXPECT_EQ(first_difference(memory_.bytes(kEnd, kLength - kEnd), kNearSeed, kEnd), std::nullopt);
}

TEST_P(WindowOfPeer, IsReadFromItsFirstByteToItsLast) {
  bind();
  ASSERT_EQ(access(IBV_WR_RDMA_READ, start(), kWindow), IBV_WC_SUCCESS);
  EXPECT_EQ(peer_->first_difference(0, kWindow, kNearSeed, kStart), std::nullopt);
  EXPECT_EQ(peer_->first_difference(kWindow, kLength - kWindow, kFarSeed, kWindow), std::nullopt);
  EXPECT_EQ(first_difference(memory_.bytes(), kNearSeed), std::nullopt);
}

TEST_P(WindowOfPeer, OneByteBeforeItIsOutside) {
  bind();
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) expect_refused(opcode, start() - 1, 8);
}

TEST_P(WindowOfPeer, OneByteAfterItIsOutside) {
  bind();
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ})
    expect_refused(opcode, start() + kWindow - 7, 8);
  expect_refused(IBV_WR_RDMA_WRITE, start(), kWindow + 1);
}

TEST_P(WindowOfPeer, GrantsWhatItWasBoundWith) {
  bind(IBV_ACCESS_REMOTE_READ);
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
  EXPECT_EQ(access(IBV_WR_RDMA_READ, start(), 8), IBV_WC_SUCCESS);
}

TEST_P(WindowOfPeer, IsAddressedFromZeroWhenItIsZeroBased) {
  bind(kReadAndWrite | IBV_ACCESS_ZERO_BASED);
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
  expect_refused(IBV_WR_RDMA_WRITE, kWindow - 7, 8);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, 0, kWindow), IBV_WC_SUCCESS);
  EXPECT_EQ(first_difference(memory_.bytes(kStart, kWindow), kFarSeed), std::nullopt);
}

TEST_P(WindowOfPeer, OfNoRangeGrantsNothing) { expect_refused(IBV_WR_RDMA_READ, start(), 8); }

TEST_P(WindowOfPeer, IsGoneWhenItIsDeallocated) {
  bind();
  EXPECT_EQ(access(IBV_WR_RDMA_READ, start(), 0), IBV_WC_SUCCESS);
  const uint32_t key = window_->rkey;
  window_.reset();
  expect_key_refused(key, IBV_WR_RDMA_WRITE, start(), 8);
}

TEST_P(WindowOfType1, IsGoodForEveryQueuePairOfItsDomain) {
  bind();
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start(), 8, 1), IBV_WC_SUCCESS);
}

TEST_P(WindowOfType1, HasAnotherKeyAndRangeWhenItIsBoundAnew) {
  bind();
  const uint32_t before = window_->rkey;
  bind(kReadAndWrite, kStart + kWindow);
  expect_key_refused(before, IBV_WR_RDMA_WRITE, start() + kWindow, 8);
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start() + kWindow, kWindow), IBV_WC_SUCCESS);
}

TEST_P(WindowOfType1, GrantsNothingWhenItIsBoundToNothing) {
  bind();
  bind_window(side_, queue_pairs_[0].get(), window_.get(), {.mr = region_.get()});
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
}

TEST_P(WindowOfType2, IsGoodForNoOtherQueuePair) {
  bind();
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8, 1);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start(), 8), IBV_WC_SUCCESS);
}

TEST_P(WindowOfType2, GrantsNothingWhenItIsInvalidatedHere) {
  bind();
  EXPECT_EQ(access(IBV_WR_RDMA_READ, start(), 0), IBV_WC_SUCCESS);
  invalidate_window(side_, queue_pairs_[0].get(), window_.get());
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
}

TEST_P(WindowOfType2, GrantsNothingWhenThePeerHasInvalidatedIt) {
  bind();
  ibv_recv_wr receive{.wr_id = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(queue_pairs_[0].get(), &receive, &bad), 0);
  ASSERT_EQ(peer_->post_send(0, {.opcode = IBV_WR_SEND_WITH_INV, .immediate = window_->rkey}), 0);
  const std::optional<ibv_wc> received = side_.poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, IBV_WC_SUCCESS) << ibv_wc_status_str(received->status);
  EXPECT_EQ(received->wc_flags, IBV_WC_WITH_INV);
  EXPECT_EQ(received->invalidated_rkey, window_->rkey);
  const std::optional<ibv_wc> sent = peer_->poll();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->status, IBV_WC_SUCCESS) << ibv_wc_status_str(sent->status);
  expect_refused(IBV_WR_RDMA_WRITE, start(), 8);
}

TEST_P(WindowOfType2, IsNotInvalidatedByThePeerOfAnotherQueuePair) {
  bind();
  ibv_recv_wr receive{.wr_id = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(queue_pairs_[1].get(), &receive, &bad), 0);
  ASSERT_EQ(peer_->post_send(1, {.opcode = IBV_WR_SEND_WITH_INV, .immediate = window_->rkey}), 0);
  const std::optional<ibv_wc> sent = peer_->poll();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(sent->status);
  const std::optional<ibv_wc> received = side_.poll();
  ASSERT_TRUE(received);
  EXPECT_NE(received->status, IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start(), 8), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::conformance
