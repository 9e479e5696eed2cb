// Each builder of ibv_wr_start(3) does what the opcode of its name does, and the queue pair has just those asked for.
#include <cstring>

#include "conformance/support/datagram_header.h"
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
constexpr uint64_t kThere = 8192;       // where the peer's memory is reached
constexpr __be32 kImmediate = 0x12345678;

// Of the requester's queue pair; the responder's needs none.
class Builder : public PairTest, public testing::WithParamInterface<Setting> {
 protected:
  Builder() : Builder(IBV_QPT_RC, kAllOfRc) {}
  Builder(ibv_qp_type type, uint64_t builders) {
    set_up(GetParam(), IBV_WR_RDMA_WRITE, kLength, type, type == IBV_QPT_XRC_SEND);
    region_ = near_->register_memory(*memory_, kAccess);
    remote_ = far_->register_memory(kLength, kAccess);
    ibv_qp_init_attr_ex init{.send_cq = near_->cq(), .recv_cq = near_->cq(), .cap = kOrdinaryCapabilities};
    init.qp_type = type;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = near_->pd();
    init.send_ops_flags = builders;
    qp_.reset(ibv_create_qp_ex(near_->context(), &init));
    EXPECT_TRUE(qp_) << strerror(errno);
    builder_ = ibv_qp_to_qp_ex(qp_.get());
    connect({.access = kAccess | kFlushGlobal});
    fill(memory_->bytes(0, 64), 1);
  }

  uint64_t there() const { return remote_.address + kThere; }
  uint64_t word_here() const { return *reinterpret_cast<const uint64_t*>(memory_->data()); }
  uint64_t word_there() {
    uint64_t value;
    std::memcpy(&value, far_->bytes_at(kThere).data(), sizeof value);
    return value;
  }

  // One request, built by `build`, with the first 64 bytes of the memory as its data unless it has none.
  template <class Build>
  void post(Build&& build, uint32_t length = 64) {
    ibv_wr_start(builder_);
    builder_->wr_id = 1;
    builder_->wr_flags = IBV_SEND_SIGNALED;
    build();
    if (length) ibv_wr_set_sge(builder_, region_->lkey, memory_->address(), length);
    ASSERT_EQ(ibv_wr_complete(builder_), 0);
  }
  void post_receive(uint32_t length = 64) { ASSERT_EQ(far_->post_receive(0, 2, {{kThere, length}}), 0); }
  void expect_success(ibv_wc_opcode opcode) {
    const std::optional<ibv_wc> sent = near_->poll();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent->opcode, opcode);
  }
  ibv_wc expect_receive() {
    const std::optional<ibv_wc> received = far_->poll();
    EXPECT_TRUE(received);
    if (!received) return {};
    EXPECT_EQ(received->status, IBV_WC_SUCCESS);
    EXPECT_EQ(received->wr_id, 2u);
    return *received;
  }
  bool arrived(uint64_t offset = kThere) { return !far_->first_difference(offset, 64, 1, 0); }

  ibv_qp_ex* builder_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Each, Builder, every_setting(), setting_name);

TEST_P(Builder, Write) {
  post([&] { ibv_wr_rdma_write(builder_, remote_.rkey, there()); });
  expect_success(IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(arrived());
}

TEST_P(Builder, WriteWithImmediate) {
  post_receive();
  post([&] { ibv_wr_rdma_write_imm(builder_, remote_.rkey, there(), kImmediate); });
  expect_success(IBV_WC_RDMA_WRITE);
  const ibv_wc received = expect_receive();
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, kImmediate);
  EXPECT_TRUE(arrived());
}

TEST_P(Builder, Read) {
  far_->fill(kThere, 64, 2);
  post([&] { ibv_wr_rdma_read(builder_, remote_.rkey, there()); });
  expect_success(IBV_WC_RDMA_READ);
  EXPECT_FALSE(first_difference(memory_->bytes(0, 64), 2, kThere));
}

TEST_P(Builder, Send) {
  post_receive();
  post([&] { ibv_wr_send(builder_); });
  expect_success(IBV_WC_SEND);
  EXPECT_EQ(expect_receive().opcode, IBV_WC_RECV);
  EXPECT_TRUE(arrived());
}

TEST_P(Builder, SendWithImmediate) {
  post_receive();
  post([&] { ibv_wr_send_imm(builder_, kImmediate); });
  expect_success(IBV_WC_SEND);
  const ibv_wc received = expect_receive();
  EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(received.imm_data, kImmediate);
}

TEST_P(Builder, CompareAndSwap) {
  const uint64_t before = word_there();
  post([&] { ibv_wr_atomic_cmp_swp(builder_, remote_.rkey, there(), before, before + 9); }, 8);
  expect_success(IBV_WC_COMP_SWAP);
  EXPECT_EQ(word_there(), before + 9);
  EXPECT_EQ(word_here(), before);
}

TEST_P(Builder, FetchAndAdd) {
  const uint64_t before = word_there();
  post([&] { ibv_wr_atomic_fetch_add(builder_, remote_.rkey, there(), 5); }, 8);
  expect_success(IBV_WC_FETCH_ADD);
  EXPECT_EQ(word_there(), before + 5);
  EXPECT_EQ(word_here(), before);
}

TEST_P(Builder, AtomicWrite) {
  uint64_t value = 0x1122334455667788;
  post(
      [&] {
        ibv_wr_atomic_write(builder_, remote_.rkey, there(), &value);
        value = 0;
      },
      0);
  expect_success(IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(word_there(), 0x1122334455667788u);
}

// As <infiniband/verbs.h> has it from release 45 on.
struct NewerQueuePair {
  ibv_qp_ex base;
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type, uint8_t level);
};

TEST_P(Builder, Flush) {
  constexpr uint8_t kToView = 1, kRange = 0, kNoType = 0;   // IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE
  constexpr auto kFlushed = static_cast<ibv_wc_opcode>(8);  // IBV_WC_FLUSH
  remote_ = far_->register_memory(kLength, kAccess | kFlushGlobal);
  const auto* const newer = reinterpret_cast<const NewerQueuePair*>(builder_);
  ASSERT_TRUE(newer->wr_flush);
  post([&] { newer->wr_flush(builder_, remote_.rkey, there(), 64, kToView, kRange); }, 0);
  expect_success(kFlushed);
  ibv_wr_start(builder_);
  newer->wr_flush(builder_, remote_.rkey, there(), 64, kNoType, kRange);
  EXPECT_EQ(ibv_wr_complete(builder_), EINVAL);
}

// A key that is no window's cannot be invalidated: the peer refuses, and nothing is received.
TEST_P(Builder, SendWithInvalidateOfNoWindow) {
  post_receive();
  post([&] { ibv_wr_send_inv(builder_, remote_.rkey); });
  const std::optional<ibv_wc> sent = near_->poll(), received = far_->poll();
  ASSERT_TRUE(sent && received);
  EXPECT_EQ(sent->status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(received->status, IBV_WC_LOC_PROT_ERR);
}

// A window of type 2 of the requester, from its binding to its end by a SEND that invalidates it, or by its owner.
class BuiltWindow : public Builder {
 protected:
  BuiltWindow() : window_(ibv_alloc_mw(near_->pd(), IBV_MW_TYPE_2)) {
    EXPECT_TRUE(window_);
    key_ = ibv_inc_rkey(window_->rkey);
    const ibv_mw_bind_info info{.mr = region_.get(),
                                .addr = memory_->address(kThere),
                                .length = 64,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    post([&] { ibv_wr_bind_mw(builder_, window_.get(), key_, &info); }, 0);
    expect_success(IBV_WC_BIND_MW);
    far_->fill(0, 64, 1);
  }
  ~BuiltWindow() override { qp_.reset(); }

  // Whether the peer may write into the window.
  ibv_wc_status write_by_peer() {
    EXPECT_EQ(far_->post_send(0, {.id = 3, .piece = {0, 64}, .remote_address = memory_->address(kThere), .rkey = key_}),
              0);
    const std::optional<ibv_wc> completion = far_->poll();
    return completion ? completion->status : IBV_WC_GENERAL_ERR;
  }

  MwHandle window_;
  uint32_t key_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Each, BuiltWindow, every_setting(), setting_name);

TEST_P(BuiltWindow, IsReachedUntilItIsInvalidatedHere) {
  EXPECT_EQ(write_by_peer(), IBV_WC_SUCCESS);
  EXPECT_FALSE(first_difference(memory_->bytes(kThere, 64), 1));
  post([&] { ibv_wr_local_inv(builder_, key_); }, 0);
  expect_success(IBV_WC_LOCAL_INV);
  EXPECT_EQ(write_by_peer(), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(BuiltWindow, IsInvalidatedByAMessageOfThePeer) {
  ibv_sge into{memory_->address(4096), 64, region_->lkey};
  ibv_recv_wr receive{.wr_id = 2, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp_.get(), &receive, &bad), 0);
  EXPECT_EQ(far_->post_send(0, {.id = 1, .opcode = IBV_WR_SEND_WITH_INV, .piece = {0, 64}, .immediate = key_}), 0);
  const std::optional<ibv_wc> received = near_->poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, IBV_WC_SUCCESS);
  EXPECT_TRUE(received->wc_flags & IBV_WC_WITH_INV);
  EXPECT_EQ(received->invalidated_rkey, key_);
  const std::optional<ibv_wc> sent = far_->poll();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_by_peer(), IBV_WC_REM_ACCESS_ERR);
}

class DatagramBuilder : public Builder {
 protected:
  DatagramBuilder() : Builder(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM) {
    ibv_ah_attr address{};
    address.grh.dgid = far_address_.gid;
    address.grh.hop_limit = 64;
    address.is_global = 1;
    address.port_num = kPort;
    handle_.reset(ibv_create_ah(near_->pd(), &address));
    EXPECT_TRUE(handle_) << strerror(errno);
  }
  AhHandle handle_;
};
INSTANTIATE_TEST_SUITE_P(Each, DatagramBuilder, every_setting(), setting_name);

TEST_P(DatagramBuilder, SaysWhereTo) {
  post_receive(kDatagramHeader + 64);
  post([&] {
    ibv_wr_send_imm(builder_, kImmediate);
    ibv_wr_set_ud_addr(builder_, handle_.get(), far_address_.qpn, Wiring{}.qkey);
  });
  expect_success(IBV_WC_SEND);
  const ibv_wc received = expect_receive();
  EXPECT_EQ(received.imm_data, kImmediate);
  EXPECT_EQ(received.src_qp, qp_->qp_num);
  EXPECT_TRUE(arrived(kThere + kDatagramHeader));
}

class ExtendedBuilder : public Builder {
 protected:
  ExtendedBuilder() : Builder(IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND) {}
};
INSTANTIATE_TEST_SUITE_P(Each, ExtendedBuilder, every_setting(), setting_name);

TEST_P(ExtendedBuilder, SaysForWhichQueue) {
  post_receive();
  post([&] {
    ibv_wr_send(builder_);
    ibv_wr_set_xrc_srqn(builder_, far_address_.shared_queue);
  });
  expect_success(IBV_WC_SEND);
  expect_receive();
  EXPECT_TRUE(arrived());
}

}  // namespace
}  // namespace verbatim::conformance
