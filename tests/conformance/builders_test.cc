// Each builder of ibv_wr_start(3) does what the opcode of its name does, and the queue pair has just those asked for.
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kAllOfRc = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                              IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                              IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                              IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
                              IBV_QP_EX_WITH_ATOMIC_WRITE | 1 << 11;  // IBV_QP_EX_WITH_FLUSH
constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr unsigned kFlushGlobal = 256;  // IBV_ACCESS_FLUSH_GLOBAL
constexpr uint64_t kThere = 8192;       // where the far half of the memory begins
constexpr __be32 kImmediate = 0x12345678;

class Builder : public testing::Test {
 protected:
  Builder() : region_(side_.register_memory(memory_, kAccess)) {
    ibv_qp_init_attr_ex init{.send_cq = side_.cq(), .recv_cq = side_.cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = side_.pd();
    init.send_ops_flags = kAllOfRc;
    qp_.reset(ibv_create_qp_ex(side_.context(), &init));
    EXPECT_TRUE(qp_) << strerror(errno);
    builder_ = ibv_qp_to_qp_ex(qp_.get());
    peer_ = side_.create_queue_pair();
    const Wiring wiring{.access = kAccess | kFlushGlobal};
    EXPECT_EQ(connect(peer_.get(), side_.address_of(qp_.get()), wiring), 0);
    EXPECT_EQ(connect(qp_.get(), side_.address_of(peer_.get()), wiring), 0);
    fill(memory_.bytes(0, 64), 1);
  }

  uint64_t there() const { return memory_.address(kThere); }
  uint64_t& word(uint64_t offset) { return *reinterpret_cast<uint64_t*>(memory_.data() + offset); }

  // One request, built by `build`, with the first 64 bytes of the memory as its data unless it has none.
  template <class Build>
  void post(Build&& build, uint32_t length = 64) {
    ibv_wr_start(builder_);
    builder_->wr_id = 1;
    builder_->wr_flags = IBV_SEND_SIGNALED;
    build();
    if (length) ibv_wr_set_sge(builder_, region_->lkey, memory_.address(), length);
    ASSERT_EQ(ibv_wr_complete(builder_), 0);
  }
  void post_receive() {
    ibv_sge sge{there(), 64, region_->lkey};
    ibv_recv_wr request{.wr_id = 2, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(peer_.get(), &request, &bad), 0);
  }
  // The next completions are the request's, and with `receives` that of the receive, which is returned.
  ibv_wc expect_success(ibv_wc_opcode opcode, bool receives = false) {
    std::optional<ibv_wc> sent = side_.poll(), received = receives ? side_.poll() : sent;
    EXPECT_TRUE(sent && received);
    if (!sent || !received) return {};
    if (receives && sent->wr_id != 1) std::swap(sent, received);
    EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent->opcode, opcode);
    EXPECT_EQ(received->status, IBV_WC_SUCCESS);
    return *received;
  }
  bool arrived() { return !first_difference(memory_.bytes(kThere, 64), 1); }

  Side side_;
  Memory memory_{MemoryKind::file, 16384};
  MrHandle region_;
  QpHandle qp_, peer_;
  ibv_qp_ex* builder_ = nullptr;
};

TEST_F(Builder, Write) {
  post([&] { ibv_wr_rdma_write(builder_, region_->rkey, there()); });
  expect_success(IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(arrived());
}

TEST_F(Builder, WriteWithImmediate) {
  post_receive();
  post([&] { ibv_wr_rdma_write_imm(builder_, region_->rkey, there(), kImmediate); });
  const ibv_wc received = expect_success(IBV_WC_RDMA_WRITE, true);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, kImmediate);
  EXPECT_TRUE(arrived());
}

TEST_F(Builder, Read) {
  fill(memory_.bytes(kThere, 64), 2);
  post([&] { ibv_wr_rdma_read(builder_, region_->rkey, there()); });
  expect_success(IBV_WC_RDMA_READ);
  EXPECT_FALSE(first_difference(memory_.bytes(0, 64), 2));
}

TEST_F(Builder, Send) {
  post_receive();
  post([&] { ibv_wr_send(builder_); });
  EXPECT_EQ(expect_success(IBV_WC_SEND, true).opcode, IBV_WC_RECV);
  EXPECT_TRUE(arrived());
}

TEST_F(Builder, SendWithImmediate) {
  post_receive();
  post([&] { ibv_wr_send_imm(builder_, kImmediate); });
  const ibv_wc received = expect_success(IBV_WC_SEND, true);
  EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(received.imm_data, kImmediate);
}

TEST_F(Builder, CompareAndSwap) {
  word(kThere) = 7;
  post([&] { ibv_wr_atomic_cmp_swp(builder_, region_->rkey, there(), 7, 9); }, 8);
  expect_success(IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(kThere), 9u);
  EXPECT_EQ(word(0), 7u);
}

TEST_F(Builder, FetchAndAdd) {
  word(kThere) = 7;
  post([&] { ibv_wr_atomic_fetch_add(builder_, region_->rkey, there(), 5); }, 8);
  expect_success(IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(kThere), 12u);
  EXPECT_EQ(word(0), 7u);
}

TEST_F(Builder, AtomicWrite) {
  uint64_t value = 0x1122334455667788;
  post(
      [&] {
        ibv_wr_atomic_write(builder_, region_->rkey, there(), &value);
        value = 0;
      },
      0);
  expect_success(IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(word(kThere), 0x1122334455667788u);
}

// As <infiniband/verbs.h> has it from release 45 on.
struct NewerQueuePair {
  ibv_qp_ex base;
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type, uint8_t level);
};

TEST_F(Builder, Flush) {
  constexpr uint8_t kToView = 1, kRange = 0, kNoType = 0;   // IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE
  constexpr auto kFlushed = static_cast<ibv_wc_opcode>(8);  // IBV_WC_FLUSH
  const MrHandle region = side_.register_memory(memory_, kAccess | kFlushGlobal);
  const auto* const newer = reinterpret_cast<const NewerQueuePair*>(builder_);
  ASSERT_TRUE(newer->wr_flush);
  post([&] { newer->wr_flush(builder_, region->rkey, there(), 64, kToView, kRange); }, 0);
  expect_success(kFlushed);
  ibv_wr_start(builder_);
  newer->wr_flush(builder_, region->rkey, there(), 64, kNoType, kRange);
  EXPECT_EQ(ibv_wr_complete(builder_), EINVAL);
}

// A window of type 2 from its binding by the peer to its end by a SEND that invalidates it, or by the peer itself.
class BuiltWindow : public Builder {
 protected:
  BuiltWindow() {
    window_ = ibv_alloc_mw(side_.pd(), IBV_MW_TYPE_2);
    EXPECT_TRUE(window_);
    key_ = ibv_inc_rkey(window_->rkey);
    const ibv_mw_bind_info info{.mr = region_.get(),
                                .addr = there(),
                                .length = 64,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    post([&] { ibv_wr_bind_mw(builder_, window_, key_, &info); }, 0);
    expect_success(IBV_WC_BIND_MW);
  }
  ~BuiltWindow() override { EXPECT_EQ(ibv_dealloc_mw(window_), 0); }

  // Whether the peer may write into the window.
  ibv_wc_status write_by_peer() {
    ibv_sge sge{memory_.address(), 64, region_->lkey};
    ibv_send_wr request{.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {.remote_addr = there(), .rkey = key_};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(peer_.get(), &request, &bad), 0);
    const std::optional<ibv_wc> completion = side_.poll();
    return completion ? completion->status : IBV_WC_GENERAL_ERR;
  }

  ibv_mw* window_ = nullptr;
  uint32_t key_ = 0;
};

TEST_F(BuiltWindow, IsReachedUntilItIsInvalidatedHere) {
  EXPECT_EQ(write_by_peer(), IBV_WC_SUCCESS);
  EXPECT_TRUE(arrived());
  post([&] { ibv_wr_local_inv(builder_, key_); }, 0);
  expect_success(IBV_WC_LOCAL_INV);
  EXPECT_EQ(write_by_peer(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(BuiltWindow, IsInvalidatedByAMessageOfThePeer) {
  ibv_sge into{memory_.address(4096), 64, region_->lkey};
  ibv_recv_wr receive{.wr_id = 2, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &bad_receive), 0);
  ibv_sge sge{memory_.address(), 64, region_->lkey};
  ibv_send_wr request{.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV};
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = key_;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(peer_.get(), &request, &bad), 0);
  const ibv_wc received = expect_success(IBV_WC_SEND, true);
  EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_INV);
  EXPECT_EQ(received.invalidated_rkey, key_);
  EXPECT_EQ(write_by_peer(), IBV_WC_REM_ACCESS_ERR);
}

// A key that is no window's cannot be invalidated: the peer refuses, and nothing is received.
TEST_F(Builder, SendWithInvalidateOfNoWindow) {
  post_receive();
  post([&] { ibv_wr_send_inv(builder_, region_->rkey); });
  const std::optional<ibv_wc> first = side_.poll(), second = side_.poll();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->status, IBV_WC_SUCCESS);
  EXPECT_NE(second->status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::conformance
