#include "proto/work.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

using Type = QueuePairType;
using Opcode = SendOpcode;

struct Row {
  Opcode opcode;
  bool rc, uc, ud, xrc_send;
};

// ibv_post_send(3), but for SEND_WITH_INV over UC, for which IBTA 9.2 has no packet; annexes A19 and A20 for the last
// two.
constexpr Row kOperations[] = {
    {Opcode::rdma_write, true, true, false, true},
    {Opcode::rdma_write_with_imm, true, true, false, true},
    {Opcode::send, true, true, true, true},
    {Opcode::send_with_imm, true, true, true, true},
    {Opcode::rdma_read, true, false, false, true},
    {Opcode::atomic_compare_swap, true, false, false, true},
    {Opcode::atomic_fetch_add, true, false, false, true},
    {Opcode::local_invalidate, true, true, false, true},
    {Opcode::bind_window, true, true, false, true},
    {Opcode::send_with_invalidate, true, false, false, true},
    {Opcode::flush, true, false, false, true},
    {Opcode::atomic_write, true, false, false, true},
};

TEST(Work, EachTypeHasItsOwnOperations) {
  for (const Row& row : kOperations) {
    EXPECT_EQ(has_operation(Type::rc, row.opcode), row.rc) << name(row.opcode);
    EXPECT_EQ(has_operation(Type::uc, row.opcode), row.uc) << name(row.opcode);
    EXPECT_EQ(has_operation(Type::ud, row.opcode), row.ud) << name(row.opcode);
    EXPECT_EQ(has_operation(Type::xrc_send, row.opcode), row.xrc_send) << name(row.opcode);
    EXPECT_FALSE(has_operation(Type::xrc_receive, row.opcode)) << name(row.opcode);
  }
}

}  // namespace
}  // namespace verbatim
