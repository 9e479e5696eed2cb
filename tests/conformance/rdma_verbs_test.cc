// The functions of our <rdma/rdma_verbs.h> on identifiers that are made by hand: inline, and as the symbols that
// librdmacm exports. What connects identifiers is tested elsewhere.
#include <dlfcn.h>
#include <rdma/rdma_verbs.h>

#include <thread>

#include "conformance/support/datagram_header.h"
#include "conformance/support/notifying_pair.h"

namespace verbatim::conformance {
namespace {

enum class Way { inlined, exported };

class Calls {
 public:
  explicit Calls(Way way) : library_(way == Way::exported ? dlopen(VERBATIM_RDMACM_PATH, RTLD_NOW) : nullptr) {
    EXPECT_EQ(library_ != nullptr, way == Way::exported) << dlerror();
  }

 private:
  template <class Function>
  Function* take(const char* name, Function* inlined) const {
    if (!library_) return inlined;
    void* const symbol = dlvsym(library_, name, "VERBATIM_1.0");
    EXPECT_TRUE(symbol) << name;
    return reinterpret_cast<Function*>(symbol);
  }

  void* const library_;

 public:
  decltype(&rdma_reg_msgs) const reg_msgs = take("rdma_reg_msgs", rdma_reg_msgs);
  decltype(&rdma_reg_read) const reg_read = take("rdma_reg_read", rdma_reg_read);
  decltype(&rdma_reg_write) const reg_write = take("rdma_reg_write", rdma_reg_write);
  decltype(&rdma_dereg_mr) const dereg_mr = take("rdma_dereg_mr", rdma_dereg_mr);
  decltype(&rdma_post_recv) const post_recv = take("rdma_post_recv", rdma_post_recv);
  decltype(&rdma_post_recvv) const post_recvv = take("rdma_post_recvv", rdma_post_recvv);
  decltype(&rdma_post_send) const post_send = take("rdma_post_send", rdma_post_send);
  decltype(&rdma_post_sendv) const post_sendv = take("rdma_post_sendv", rdma_post_sendv);
  decltype(&rdma_post_ud_send) const post_ud_send = take("rdma_post_ud_send", rdma_post_ud_send);
  decltype(&rdma_post_read) const post_read = take("rdma_post_read", rdma_post_read);
  decltype(&rdma_post_readv) const post_readv = take("rdma_post_readv", rdma_post_readv);
  decltype(&rdma_post_write) const post_write = take("rdma_post_write", rdma_post_write);
  decltype(&rdma_post_writev) const post_writev = take("rdma_post_writev", rdma_post_writev);
  decltype(&rdma_get_send_comp) const get_send_comp = take("rdma_get_send_comp", rdma_get_send_comp);
  decltype(&rdma_get_recv_comp) const get_recv_comp = take("rdma_get_recv_comp", rdma_get_recv_comp);
};

// An identifier as rdma_create_qp(3) leaves it, and memory to send from and receive into.
class End {
 public:
  static constexpr uint64_t kLength = 8192;

  explicit End(ibv_qp_type type, bool shared) {
    id.verbs = side_.context();
    id.pd = side_.pd();
    id.qp_type = type;
    send_channel_.reset(ibv_create_comp_channel(side_.context()));
    receive_channel_.reset(ibv_create_comp_channel(side_.context()));
    send_cq_.reset(ibv_create_cq(side_.context(), kEntries, &id, send_channel_.get(), 0));
    receive_cq_.reset(ibv_create_cq(side_.context(), kEntries, &id, receive_channel_.get(), 0));
    if (shared) shared_ = side_.create_shared_queue();
    ibv_qp_init_attr init{.send_cq = send_cq_.get(),
                          .recv_cq = receive_cq_.get(),
                          .srq = shared_.get(),
                          .cap = kOrdinaryCapabilities,
                          .qp_type = type};
    qp_.reset(ibv_create_qp(side_.pd(), &init));
    EXPECT_TRUE(send_channel_ && receive_channel_ && send_cq_ && receive_cq_ && qp_) << strerror(errno);
    id.send_cq_channel = send_channel_.get();
    id.send_cq = send_cq_.get();
    id.recv_cq_channel = receive_channel_.get();
    id.recv_cq = receive_cq_.get();
    id.srq = shared_.get();
    id.qp = qp_.get();
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  const Side& side() const { return side_; }
  Address address() const { return side_.address_of(id.qp); }
  uint8_t* at(uint64_t offset) const { return memory_.data() + offset; }
  uint64_t address_at(uint64_t offset) const { return memory_.address(offset); }
  std::span<uint8_t> bytes(uint64_t offset, uint64_t length) const { return memory_.bytes(offset, length); }
  static void make_non_blocking(ibv_comp_channel* channel) {
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  }

 private:
  static constexpr int kEntries = 32;

  Side side_;
  const Memory memory_{MemoryKind::anonymous, kLength};
  ChannelHandle send_channel_;
  ChannelHandle receive_channel_;
  CqHandle send_cq_;
  CqHandle receive_cq_;
  SrqHandle shared_;
  QpHandle qp_;

 public:
  rdma_cm_id id{};
};

class RdmaVerbs : public testing::TestWithParam<Way> {
 protected:
  static constexpr uint32_t kPart = 512;

  void set_up(ibv_qp_type type = IBV_QPT_RC, bool shared = false) {
    near_.emplace(type, shared);
    far_.emplace(type, shared);
    const Wiring wiring{.qkey = RDMA_UDP_QKEY};
    ASSERT_EQ(connect(near_->id.qp, far_->address(), wiring), 0);
    ASSERT_EQ(connect(far_->id.qp, near_->address(), wiring), 0);
    near_region_ = region(call_.reg_msgs, *near_);
    far_region_ = region(call_.reg_msgs, *far_);
  }
  void TearDown() override {
    for (ibv_mr* mr : regions_) EXPECT_EQ(call_.dereg_mr(mr), 0);
    near_.reset();
    far_.reset();
  }

  ibv_mr* region(decltype(&rdma_reg_msgs) registration, End& end) {
    ibv_mr* const mr = registration(&end.id, end.at(0), End::kLength);
    EXPECT_TRUE(mr) << strerror(errno);
    if (mr) regions_.push_back(mr);
    return mr;
  }
  static void* context(uint64_t id) { return reinterpret_cast<void*>(id); }
  // Two pieces that do not touch.
  static std::array<ibv_sge, 2> pieces(const End& end, const ibv_mr* mr, uint64_t offset) {
    return {ibv_sge{end.address_at(offset), kPart, mr->lkey},
            ibv_sge{end.address_at(offset + 2 * kPart), kPart, mr->lkey}};
  }
  void expect_sent(uint64_t id, ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc completion{};
    ASSERT_EQ(call_.get_send_comp(&near_->id, &completion), 1) << strerror(errno);
    EXPECT_EQ(completion.wr_id, id);
    EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
    // What failed need not say what it was.
    EXPECT_TRUE(status != IBV_WC_SUCCESS || completion.opcode == opcode) << completion.opcode;
  }
  void expect_received(uint64_t id, uint32_t length) {
    ibv_wc completion{};
    ASSERT_EQ(call_.get_recv_comp(&far_->id, &completion), 1) << strerror(errno);
    EXPECT_EQ(completion.wr_id, id);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(completion.opcode, IBV_WC_RECV);
    EXPECT_EQ(completion.byte_len, length);
  }
  template <class Call, class... Arguments>
  static void expect_error(int error, Call call, Arguments... arguments) {
    errno = 0;
    EXPECT_EQ(call(arguments...), -1);
    EXPECT_EQ(errno, error);
  }

  const Calls call_{GetParam()};
  std::optional<End> near_;
  std::optional<End> far_;
  ibv_mr* near_region_ = nullptr;
  ibv_mr* far_region_ = nullptr;
  std::vector<ibv_mr*> regions_;
};
INSTANTIATE_TEST_SUITE_P(Each, RdmaVerbs, testing::Values(Way::inlined, Way::exported),
                         [](const auto& info) { return info.param == Way::inlined ? "Inline" : "Exported"; });

// ---- messages ----

TEST_P(RdmaVerbs, AMessageCompletesAtBothEndsWithItsContext) {
  set_up();
  fill(near_->bytes(0, kPart), 1);
  ASSERT_EQ(call_.post_recv(&far_->id, context(11), far_->at(kPart), 2 * kPart, far_region_), 0);
  ASSERT_EQ(call_.post_send(&near_->id, context(12), near_->at(0), kPart, near_region_, IBV_SEND_SIGNALED), 0);
  expect_sent(12, IBV_WC_SEND);
  expect_received(11, kPart);
  EXPECT_EQ(first_difference(far_->bytes(kPart, kPart), 1), std::nullopt);
}

TEST_P(RdmaVerbs, AMessageOfPiecesFillsPieces) {
  set_up();
  fill(near_->bytes(0, kPart), 1);
  fill(near_->bytes(2 * kPart, kPart), 1, kPart);
  std::array receives = pieces(*far_, far_region_, kPart);
  std::array sends = pieces(*near_, near_region_, 0);
  ASSERT_EQ(call_.post_recvv(&far_->id, context(11), receives.data(), 2), 0);
  ASSERT_EQ(call_.post_sendv(&near_->id, context(12), sends.data(), 2, IBV_SEND_SIGNALED), 0);
  expect_sent(12, IBV_WC_SEND);
  expect_received(11, 2 * kPart);
  EXPECT_EQ(first_difference(far_->bytes(kPart, kPart), 1), std::nullopt);
  EXPECT_EQ(first_difference(far_->bytes(3 * kPart, kPart), 1, kPart), std::nullopt);
}

TEST_P(RdmaVerbs, InlineDataNeedsNoRegion) {
  set_up();
  constexpr uint32_t kShort = 16;
  std::array<uint8_t, kShort> data{};
  fill(data, 1);
  ASSERT_EQ(call_.post_recv(&far_->id, context(11), far_->at(0), kShort, far_region_), 0);
  ASSERT_EQ(call_.post_send(&near_->id, context(12), data.data(), kShort, nullptr, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            0);
  expect_sent(12, IBV_WC_SEND);
  expect_received(11, kShort);
  EXPECT_EQ(first_difference(far_->bytes(0, kShort), 1), std::nullopt);
}

TEST_P(RdmaVerbs, WithoutItsFlagASuccessHasNoCompletion) {
  set_up();
  for (const uint64_t id : {11, 12})
    ASSERT_EQ(call_.post_recv(&far_->id, context(id), far_->at(0), kPart, far_region_), 0);
  ASSERT_EQ(call_.post_send(&near_->id, context(21), near_->at(0), 8, near_region_, 0), 0);
  ASSERT_EQ(call_.post_send(&near_->id, context(22), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED), 0);
  expect_sent(22, IBV_WC_SEND);
  expect_received(11, 8);
  expect_received(12, 8);
}

TEST_P(RdmaVerbs, ReceivesGoToTheSharedQueueIfThereIsOne) {
  set_up(IBV_QPT_RC, true);
  std::array receives = pieces(*far_, far_region_, kPart);
  ASSERT_EQ(call_.post_recv(&far_->id, context(11), far_->at(0), kPart, far_region_), 0);
  ASSERT_EQ(call_.post_recvv(&far_->id, context(12), receives.data(), 2), 0);
  for (const uint64_t id : {21, 22})
    ASSERT_EQ(call_.post_send(&near_->id, context(id), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED), 0);
  expect_sent(21, IBV_WC_SEND);
  expect_sent(22, IBV_WC_SEND);
  expect_received(11, 8);
  expect_received(12, 8);
}

TEST_P(RdmaVerbs, ADatagramHasTheKeyOfRdmaCm) {
  set_up(IBV_QPT_UD);
  fill(near_->bytes(0, kPart), 1);
  const AhHandle handle = near_->side().create_address_handle(far_->address().gid);
  ASSERT_EQ(call_.post_recv(&far_->id, context(11), far_->at(0), kDatagramHeader + kPart, far_region_), 0);
  ASSERT_EQ(call_.post_ud_send(&near_->id, context(12), near_->at(0), kPart, near_region_, IBV_SEND_SIGNALED,
                               handle.get(), far_->id.qp->qp_num),
            0);
  expect_sent(12, IBV_WC_SEND);
  expect_received(11, kDatagramHeader + kPart);
  EXPECT_EQ(first_difference(far_->bytes(kDatagramHeader, kPart), 1), std::nullopt);
}

// ---- the peer's memory ----

TEST_P(RdmaVerbs, AReadFetches) {
  set_up();
  const ibv_mr* const target = region(call_.reg_read, *far_);
  fill(far_->bytes(0, 2 * kPart), 1);
  ASSERT_EQ(call_.post_read(&near_->id, context(11), near_->at(0), kPart, near_region_, IBV_SEND_SIGNALED,
                            far_->address_at(0), target->rkey),
            0);
  expect_sent(11, IBV_WC_RDMA_READ);
  EXPECT_EQ(first_difference(near_->bytes(0, kPart), 1), std::nullopt);
  std::array into = pieces(*near_, near_region_, kPart);
  ASSERT_EQ(
      call_.post_readv(&near_->id, context(12), into.data(), 2, IBV_SEND_SIGNALED, far_->address_at(0), target->rkey),
      0);
  expect_sent(12, IBV_WC_RDMA_READ);
  EXPECT_EQ(first_difference(near_->bytes(kPart, kPart), 1), std::nullopt);
  EXPECT_EQ(first_difference(near_->bytes(3 * kPart, kPart), 1, kPart), std::nullopt);
}

TEST_P(RdmaVerbs, AWriteStores) {
  set_up();
  const ibv_mr* const target = region(call_.reg_write, *far_);
  fill(near_->bytes(0, kPart), 1);
  fill(near_->bytes(2 * kPart, kPart), 1, kPart);
  ASSERT_EQ(call_.post_write(&near_->id, context(11), near_->at(0), kPart, near_region_, IBV_SEND_SIGNALED,
                             far_->address_at(kPart), target->rkey),
            0);
  expect_sent(11, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(first_difference(far_->bytes(kPart, kPart), 1), std::nullopt);
  std::array from = pieces(*near_, near_region_, 0);
  ASSERT_EQ(call_.post_writev(&near_->id, context(12), from.data(), 2, IBV_SEND_SIGNALED, far_->address_at(4 * kPart),
                              target->rkey),
            0);
  expect_sent(12, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(first_difference(far_->bytes(4 * kPart, 2 * kPart), 1), std::nullopt);
}

TEST_P(RdmaVerbs, ARegionForMessagesIsForNothingElse) {
  set_up();
  ASSERT_EQ(call_.post_read(&near_->id, context(11), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED,
                            far_->address_at(0), far_region_->rkey),
            0);
  expect_sent(11, IBV_WC_RDMA_READ, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(RdmaVerbs, ARegionToReadIsNotForWrites) {
  set_up();
  const ibv_mr* const target = region(call_.reg_read, *far_);
  ASSERT_EQ(call_.post_write(&near_->id, context(11), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED,
                             far_->address_at(0), target->rkey),
            0);
  expect_sent(11, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(RdmaVerbs, ARegionToWriteIsNotForReads) {
  set_up();
  const ibv_mr* const target = region(call_.reg_write, *far_);
  ASSERT_EQ(call_.post_read(&near_->id, context(11), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED,
                            far_->address_at(0), target->rkey),
            0);
  expect_sent(11, IBV_WC_RDMA_READ, IBV_WC_REM_ACCESS_ERR);
}

// ---- waiting ----

TEST_P(RdmaVerbs, TwoThreadsAnswerEachOther) {
  set_up();
  constexpr uint64_t kRounds = 500;
  const auto receive = [&](End& end, ibv_mr* mr, uint64_t id) {
    return call_.post_recv(&end.id, context(id), end.at(0), 8, mr);
  };
  const auto take = [&](End& end, uint64_t id) {
    ibv_wc completion{};
    EXPECT_EQ(call_.get_recv_comp(&end.id, &completion), 1) << strerror(errno);
    EXPECT_EQ(completion.wr_id, id);
  };
  const auto send = [&](End& end, ibv_mr* mr) {
    ibv_wc completion{};
    EXPECT_EQ(call_.post_send(&end.id, nullptr, end.at(kPart), 8, mr, IBV_SEND_SIGNALED), 0);
    EXPECT_EQ(call_.get_send_comp(&end.id, &completion), 1) << strerror(errno);
  };
  ASSERT_EQ(receive(*far_, far_region_, 1), 0);
  std::thread answering([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      take(*far_, round);
      EXPECT_EQ(receive(*far_, far_region_, round + 1), 0);
      send(*far_, far_region_);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    EXPECT_EQ(receive(*near_, near_region_, round), 0);
    send(*near_, near_region_);
    take(*near_, round);
  }
  answering.join();
}

TEST_P(RdmaVerbs, ANonBlockingChannelIsNotWaitedFor) {
  set_up();
  End::make_non_blocking(near_->id.send_cq_channel);
  End::make_non_blocking(far_->id.recv_cq_channel);
  ibv_wc completion{};
  expect_error(EAGAIN, call_.get_send_comp, &near_->id, &completion);
  expect_error(EAGAIN, call_.get_recv_comp, &far_->id, &completion);
}

// Each was armed for and found by looking, so that the channel has events of completions that are gone.
TEST_P(RdmaVerbs, EventsThatAreLeftOverAreNoCompletions) {
  set_up();
  End::make_non_blocking(near_->id.send_cq_channel);
  const ibv_mr* const target = region(call_.reg_write, *far_);
  ibv_wc completion{};
  expect_error(EAGAIN, call_.get_send_comp, &near_->id, &completion);
  for (const uint64_t id : {11, 12, 13}) {
    ASSERT_EQ(call_.post_write(&near_->id, context(id), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED,
                               far_->address_at(0), target->rkey),
              0);
    while (call_.get_send_comp(&near_->id, &completion) != 1) ASSERT_EQ(errno, EAGAIN);
    EXPECT_EQ(completion.wr_id, id);
  }
  expect_error(EAGAIN, call_.get_send_comp, &near_->id, &completion);
}

// ---- errors ----

TEST_P(RdmaVerbs, WhatAVerbRefusesIsMinusOneAndErrno) {
  set_up();
  ASSERT_EQ(to_state(near_->id.qp, IBV_QPS_RESET), 0);
  std::array list = pieces(*near_, near_region_, 0);
  void* const from = near_->at(0);
  rdma_cm_id* const id = &near_->id;
  expect_error(EINVAL, call_.post_recv, id, nullptr, from, size_t{8}, near_region_);
  expect_error(EINVAL, call_.post_recvv, id, nullptr, list.data(), 2);
  expect_error(EINVAL, call_.post_send, id, nullptr, from, size_t{8}, near_region_, 0);
  expect_error(EINVAL, call_.post_sendv, id, nullptr, list.data(), 2, 0);
  expect_error(EINVAL, call_.post_read, id, nullptr, from, size_t{8}, near_region_, 0, uint64_t{0}, 0u);
  expect_error(EINVAL, call_.post_readv, id, nullptr, list.data(), 2, 0, uint64_t{0}, 0u);
  expect_error(EINVAL, call_.post_write, id, nullptr, from, size_t{8}, near_region_, 0, uint64_t{0}, 0u);
  expect_error(EINVAL, call_.post_writev, id, nullptr, list.data(), 2, 0, uint64_t{0}, 0u);
  errno = 0;
  EXPECT_EQ(call_.reg_write(id, nullptr, End::kLength), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_P(RdmaVerbs, AnIdentifierWithoutObjectsIsRefused) {
  rdma_cm_id id{};
  uint64_t word = 0;
  ibv_wc completion{};
  for (const auto registration : {call_.reg_msgs, call_.reg_read, call_.reg_write}) {
    errno = 0;
    EXPECT_EQ(registration(&id, &word, sizeof word), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  expect_error(EINVAL, call_.post_recv, &id, nullptr, &word, sizeof word, nullptr);
  expect_error(EINVAL, call_.post_send, &id, nullptr, &word, sizeof word, nullptr, 0);
  expect_error(EINVAL, call_.post_read, &id, nullptr, &word, sizeof word, nullptr, 0, uint64_t{0}, 0u);
  expect_error(EINVAL, call_.post_ud_send, &id, nullptr, &word, sizeof word, nullptr, 0, nullptr, 0u);
  expect_error(EINVAL, call_.get_send_comp, &id, &completion);
  expect_error(EINVAL, call_.get_recv_comp, &id, &completion);
}

TEST_P(RdmaVerbs, WithoutAChannelCompletionsAreTakenButNotWaitedFor) {
  set_up();
  near_->id.send_cq_channel = nullptr;
  ASSERT_EQ(call_.post_recv(&far_->id, context(11), far_->at(0), kPart, far_region_), 0);
  ASSERT_EQ(call_.post_send(&near_->id, context(12), near_->at(0), 8, near_region_, IBV_SEND_SIGNALED), 0);
  expect_received(11, 8);
  ibv_wc completion{};
  while (call_.get_send_comp(&near_->id, &completion) != 1) ASSERT_EQ(errno, EINVAL);
  EXPECT_EQ(completion.wr_id, 12u);
  expect_error(EINVAL, call_.get_send_comp, &near_->id, &completion);
}

TEST_P(RdmaVerbs, ALengthIsNotCutTo32Bits) {
  set_up();
  constexpr size_t kBeyond = (size_t{1} << 32) + 8;
  ASSERT_EQ(call_.post_send(&near_->id, context(11), near_->at(0), kBeyond, near_region_, IBV_SEND_SIGNALED), 0);
  expect_sent(11, IBV_WC_SEND, IBV_WC_LOC_LEN_ERR);
}

}  // namespace
}  // namespace verbatim::conformance
