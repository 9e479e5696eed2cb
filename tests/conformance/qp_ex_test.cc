// Posting by ibv_wr_start(3) and its builders: nothing before ibv_wr_complete, all or nothing with it.
#include <cstring>
#include <thread>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kWriteAndRead = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;

ibv_qp_init_attr_ex wanted(const Side& side, uint64_t operations) {
  return {.send_cq = side.cq(),
          .recv_cq = side.cq(),
          .cap = kOrdinaryCapabilities,
          .qp_type = IBV_QPT_RC,
          .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
          .pd = side.pd(),
          .send_ops_flags = operations};
}

class Builders : public EachSetting {
 protected:
  Builders() {
    ibv_qp_init_attr_ex init = wanted(*near_, kWriteAndRead);
    qp_.reset(ibv_create_qp_ex(near_->context(), &init));
    EXPECT_TRUE(qp_);
    builder_ = ibv_qp_to_qp_ex(qp_.get());
    EXPECT_TRUE(builder_);
    connect();
  }
  // A request without its data; completed when `signaled`.
  void begin(uint64_t id, unsigned flags = IBV_SEND_SIGNALED) const {
    builder_->wr_id = id;
    builder_->wr_flags = flags;
  }
  void write(uint64_t id, uint64_t offset, unsigned flags = IBV_SEND_SIGNALED) const {
    begin(id, flags);
    ibv_wr_rdma_write(builder_, remote_.rkey, remote_.address + offset);
  }
  void set_local(uint64_t offset, uint32_t length) const {
    ibv_wr_set_sge(builder_, region_->lkey, memory_->address(offset), length);
  }

  ibv_qp_ex* builder_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Each, Builders, every_setting(), setting_name);

TEST_P(Builders, NothingIsPostedBeforeTheBatchIsComplete) {
  fill(memory_->bytes(), 1);
  ibv_wr_start(builder_);
  write(1, 0);
  set_local(0, 64);
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(far_->byte_at(1), 0);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->first_difference(0, 64, 1, 0), std::nullopt);
}

TEST_P(Builders, ABatchIsExecutedInOrder) {
  fill(memory_->bytes(0, 4096), 2);
  ibv_wr_start(builder_);
  write(1, 128, 0);
  const ibv_sge pieces[] = {local(128, 100), local(228, 28)};
  ibv_wr_set_sge_list(builder_, 2, pieces);
  begin(2);
  ibv_wr_rdma_read(builder_, remote_.rkey, remote_.address + 128);
  set_local(8192, 128);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(first_difference(memory_->bytes(8192, 128), 2, 128), std::nullopt);
}

TEST_P(Builders, WhatIsAbortedIsNeverExecuted) {
  fill(memory_->bytes(), 3);
  ibv_wr_start(builder_);
  write(1, 0);
  set_local(0, 64);
  ibv_wr_abort(builder_);
  ibv_wr_start(builder_);
  write(2, 1024);
  set_local(1024, 64);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(next(), succeeded(2));
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(far_->byte_at(1), 0);
}

TEST_P(Builders, AnEmptyBatchIsNoError) {
  ibv_wr_start(builder_);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_TRUE(no_completion());
}

TEST_P(Builders, InlineDataMayBeReusedAtOnce) {
  uint8_t bytes[48];
  fill(bytes, 4);
  ibv_data_buf buffers[] = {{bytes, 16}, {bytes + 16, 32}};
  ibv_wr_start(builder_);
  write(1, 0);
  ibv_wr_set_inline_data_list(builder_, 2, buffers);
  std::memset(bytes, 0, sizeof bytes);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(next(), succeeded(1));
  EXPECT_EQ(far_->first_difference(0, 48, 4, 0), std::nullopt);
}

TEST_P(Builders, OneMistakeDropsTheWholeBatch) {
  std::vector<uint8_t> bytes(capabilities_of(qp_.get()).max_inline_data + 1);
  ibv_wr_start(builder_);
  write(1, 0);
  set_local(0, 64);
  write(2, 0);
  ibv_wr_set_inline_data(builder_, bytes.data(), bytes.size());
  write(3, 0);
  set_local(0, 64);
  EXPECT_EQ(ibv_wr_complete(builder_), EINVAL);
  EXPECT_TRUE(no_completion());
  EXPECT_EQ(state_of(qp_.get()), IBV_QPS_RTS);
  ibv_wr_start(builder_);
  write(4, 0);
  set_local(0, 64);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(next(), succeeded(4));
}

TEST_P(Builders, ABatchThatDoesNotFitIsNotPostedAtAll) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_.get(), &attributes, IBV_QP_CAP, &init), 0);
  ibv_wr_start(builder_);
  for (uint32_t i = 0; i <= init.cap.max_send_wr; ++i) {
    write(i, 0);
    set_local(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(builder_), ENOMEM);
  EXPECT_TRUE(no_completion());
  ibv_wr_start(builder_);
  for (uint32_t i = 0; i < init.cap.max_send_wr; ++i) {
    write(i, 0);
    set_local(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  for (uint32_t i = 0; i < init.cap.max_send_wr; ++i) EXPECT_EQ(next(), succeeded(i));
}

TEST_P(Builders, PostSendWorksBetweenBatches) {
  EXPECT_EQ(post(request(1, 0, 64)), kAllPosted);
  ibv_wr_start(builder_);
  write(2, 0);
  set_local(0, 64);
  EXPECT_EQ(ibv_wr_complete(builder_), 0);
  EXPECT_EQ(post(request(3, 0, 64)), kAllPosted);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(next(), succeeded(id));
}

TEST_P(Builders, ThreadsDoNotMixTheirBatches) {
  constexpr int kRounds = 200;
  constexpr uint64_t kThreads = 2;
  std::atomic<uint64_t> room{kOrdinaryCapabilities.max_send_wr};  // batches of two; pairs with itself
  const auto build = [&](uint64_t thread) {
    for (int i = 0; i < kRounds; ++i) {
      while (room.load() < 2 * kThreads) std::this_thread::yield();
      room -= 2;
      ibv_wr_start(builder_);
      for (uint64_t half = 0; half < 2; ++half) {
        write(thread * 2 + half, 0);
        set_local(0, 8);
      }
      EXPECT_EQ(ibv_wr_complete(builder_), 0);
    }
  };
  std::jthread first(build, 0), second(build, 1);
  for (uint64_t i = 0; i < kThreads * kRounds; ++i) {
    const Outcome even = next();
    const Outcome odd = next();
    ASSERT_EQ(even.status, IBV_WC_SUCCESS);
    ASSERT_EQ(even.id % 2, 0u);
    ASSERT_EQ(odd.id, even.id + 1);
    room += 2;
  }
}

// ---- creation ----

class ExtendedCreation : public testing::Test {
 protected:
  int error_of(ibv_qp_init_attr_ex init) {
    errno = 0;
    const QpHandle qp(ibv_create_qp_ex(side_.context(), &init));
    return qp ? 0 : errno;
  }
  ibv_qp_init_attr_ex rc(uint64_t operations) const { return wanted(side_, operations); }

  Side side_;
};

TEST_F(ExtendedCreation, OnlyAQueuePairWithOperationsHasBuilders) {
  const QpHandle plain = side_.create_queue_pair();
  EXPECT_EQ(ibv_qp_to_qp_ex(plain.get()), nullptr);
  ibv_qp_init_attr_ex init = rc(IBV_QP_EX_WITH_RDMA_READ);
  const QpHandle qp(ibv_create_qp_ex(side_.context(), &init));
  ASSERT_TRUE(qp);
  const ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp.get());
  ASSERT_TRUE(builder);
  EXPECT_EQ(&builder->qp_base, qp.get());
  EXPECT_TRUE(builder->wr_rdma_read);
  EXPECT_FALSE(builder->wr_rdma_write);
  EXPECT_FALSE(builder->wr_send_tso);
}

TEST_F(ExtendedCreation, CapabilitiesAreWrittenBack) {
  ibv_qp_init_attr_ex init = rc(kWriteAndRead);
  const QpHandle qp(ibv_create_qp_ex(side_.context(), &init));
  EXPECT_GE(init.cap.max_send_wr, kOrdinaryCapabilities.max_send_wr);
}

TEST_F(ExtendedCreation, OperationsThatTheTypeDoesNotHaveAreRefused) {
  EXPECT_EQ(error_of(rc(IBV_QP_EX_WITH_TSO)), EOPNOTSUPP);
  EXPECT_EQ(error_of(rc(uint64_t{1} << 40)), EOPNOTSUPP);
}

TEST_F(ExtendedCreation, FeaturesThatAreNotThereAreRefused) {
  for (uint32_t mask : {uint32_t{IBV_QP_INIT_ATTR_MAX_TSO_HEADER}, uint32_t{IBV_QP_INIT_ATTR_IND_TABLE},
                        uint32_t{IBV_QP_INIT_ATTR_RX_HASH}, 1u << 20}) {
    ibv_qp_init_attr_ex init = rc(kWriteAndRead);
    init.comp_mask |= mask;
    EXPECT_EQ(error_of(init), EOPNOTSUPP) << mask;
  }
  ibv_qp_init_attr_ex init = rc(kWriteAndRead);
  init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  EXPECT_EQ(error_of(init), 0);
  init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_EQ(error_of(init), EOPNOTSUPP);
}

TEST_F(ExtendedCreation, WhatIsMissingIsInvalid) {
  ibv_qp_init_attr_ex init = rc(kWriteAndRead);
  init.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  EXPECT_EQ(error_of(init), EINVAL) << "a PD that the mask does not name";
  init = rc(kWriteAndRead);
  init.pd = nullptr;
  EXPECT_EQ(error_of(init), EINVAL);
  init = rc(kWriteAndRead);
  init.send_cq = nullptr;
  EXPECT_EQ(error_of(init), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
