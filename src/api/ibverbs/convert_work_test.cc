#include "api/ibverbs/convert_work.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

namespace verbatim::api {
namespace {

constexpr uint32_t kMaxSges = 4;

class ConvertWork : public testing::Test {
 protected:
  ConvertWork() {
    wr_.wr_id = 0x1122334455667788;
    wr_.sg_list = sges_.data();
    wr_.num_sge = 2;
  }
  SendWork converted(ibv_wr_opcode opcode, QueuePairType type = QueuePairType::rc) {
    wr_.opcode = opcode;
    SendWork work;
    EXPECT_TRUE(convert(wr_, type, kMaxSges, work).ok());
    EXPECT_EQ(work.work_id, wr_.wr_id);
    EXPECT_EQ(static_cast<int>(work.opcode), opcode);
    return work;
  }
  int error(ibv_wr_opcode opcode) {
    wr_.opcode = opcode;
    SendWork work;
    return convert(wr_, QueuePairType::rc, kMaxSges, work).error;
  }

  std::array<ibv_sge, 8> sges_{ibv_sge{0x1000, 0xffffffff, 7}, ibv_sge{0x2000, 3, 8}};
  ibv_send_wr wr_{};
};

TEST_F(ConvertWork, WriteAndReadSayWhere) {
  wr_.wr.rdma = {.remote_addr = 0xabc, .rkey = 0xdef};
  wr_.imm_data = 0x12345678;
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_WRITE}) {
    const SendWork work = converted(opcode);
    EXPECT_EQ(work.remote_address, 0xabcu);
    EXPECT_EQ(work.rkey.value, 0xdefu);
    EXPECT_EQ(work.immediate, 0x12345678u);
    EXPECT_EQ(work.sges.size(), 2u);
    EXPECT_EQ(work.sges[1].lkey.value, 8u);
  }
}

TEST_F(ConvertWork, TheLengthIsMoreThan32BitsHold) {
  EXPECT_EQ(converted(IBV_WR_SEND).length, uint64_t{0xffffffff} + 3);
}

TEST_F(ConvertWork, AtomicsTakeTheirOperands) {
  wr_.wr.atomic = {.remote_addr = 1, .compare_add = 2, .swap = 3, .rkey = 4};
  for (ibv_wr_opcode opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const SendWork work = converted(opcode);
    EXPECT_EQ(work.remote_address, 1u);
    EXPECT_EQ(work.operands.atomic.compare_add, 2u);
    EXPECT_EQ(work.operands.atomic.swap, 3u);
    EXPECT_EQ(work.rkey.value, 4u);
  }
}

TEST_F(ConvertWork, ImmediateDataAndTheInvalidatedKeyShareAField) {
  wr_.imm_data = 0x01020304;
  EXPECT_EQ(converted(IBV_WR_SEND_WITH_IMM).immediate, 0x01020304u);
  wr_.invalidate_rkey = 0x99;
  EXPECT_EQ(converted(IBV_WR_SEND_WITH_INV).immediate, 0x99u);
  EXPECT_EQ(converted(IBV_WR_LOCAL_INV).immediate, 0x99u);
}

TEST_F(ConvertWork, BindingSaysWhichWindowAndWhichRegion) {
  ibv_mw window{};
  window.rkey = 1;
  ibv_mr region{};
  region.lkey = 2;
  wr_.bind_mw = {.mw = &window,
                 .rkey = 3,
                 .bind_info = {.mr = &region, .addr = 4, .length = 5, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
  const WindowBind bind = converted(IBV_WR_BIND_MW).operands.bind;
  EXPECT_EQ(bind.window.value, 1u);
  EXPECT_EQ(bind.region.value, 2u);
  EXPECT_EQ(bind.new_key.value, 3u);
  EXPECT_EQ(bind.address, 4u);
  EXPECT_EQ(bind.length, 5u);
  EXPECT_EQ(bind.access, unsigned{IBV_ACCESS_REMOTE_READ});

  wr_.bind_mw.bind_info.mr = nullptr;
  EXPECT_EQ(converted(IBV_WR_BIND_MW).operands.bind.region.value, 0u);
  wr_.bind_mw.mw = nullptr;
  EXPECT_EQ(error(IBV_WR_BIND_MW), EINVAL);
}

TEST_F(ConvertWork, WhatHasNoDataIgnoresItsSges) {
  wr_.num_sge = -1;
  EXPECT_TRUE(converted(IBV_WR_LOCAL_INV).sges.empty());
}

TEST_F(ConvertWork, FlagsAreTakenOver) {
  wr_.send_flags = IBV_SEND_SIGNALED;
  EXPECT_TRUE(converted(IBV_WR_SEND).signaled);
  EXPECT_FALSE(converted(IBV_WR_SEND).fence);
  wr_.send_flags = IBV_SEND_FENCE;
  EXPECT_TRUE(converted(IBV_WR_SEND).fence);
  EXPECT_FALSE(converted(IBV_WR_SEND).solicited);
  wr_.send_flags = IBV_SEND_SOLICITED;
  EXPECT_TRUE(converted(IBV_WR_SEND).solicited);
  EXPECT_FALSE(converted(IBV_WR_SEND).inline_data);
  wr_.send_flags = IBV_SEND_INLINE;
  EXPECT_TRUE(converted(IBV_WR_SEND).inline_data);
  EXPECT_FALSE(converted(IBV_WR_SEND).signaled);
}

TEST_F(ConvertWork, OnlyAnXrcInitiatorNamesASharedQueue) {
  wr_.qp_type.xrc.remote_srqn = 77;
  EXPECT_EQ(converted(IBV_WR_SEND, QueuePairType::xrc_send).shared_queue, 77u);
  EXPECT_EQ(converted(IBV_WR_RDMA_WRITE, QueuePairType::xrc_send).shared_queue, 77u);
  EXPECT_EQ(converted(IBV_WR_SEND, QueuePairType::rc).shared_queue, 0u);
}

TEST_F(ConvertWork, MoreSgesThanAllowedAreNotLookedAt) {
  wr_.num_sge = kMaxSges + 1;
  EXPECT_EQ(error(IBV_WR_SEND), EINVAL);
  wr_.num_sge = INT32_MAX;
  wr_.sg_list = nullptr;
  EXPECT_EQ(error(IBV_WR_RDMA_WRITE), EINVAL);
  wr_.num_sge = -1;
  EXPECT_EQ(error(IBV_WR_RDMA_READ), EINVAL);
}

TEST_F(ConvertWork, AnOpcodeOfNobodyIsInvalidAlsoWhenEightBitsOfItAreOne) {
  for (int opcode : {int{IBV_WR_TSO}, int{IBV_WR_DRIVER1}, 14, 16, 255, 256 + IBV_WR_SEND, -1})
    EXPECT_EQ(error(static_cast<ibv_wr_opcode>(opcode)), EINVAL) << opcode;
}

}  // namespace
}  // namespace verbatim::api
