// Requests and messages that take a window's rights away: they end when nobody is in the middle of a slice through it,
// and hold nobody up until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "model/memory_window.h"
#include "support/message_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

struct WindowRequest : testing::Test, MessageEnds {
  std::unique_ptr<MemoryRegion> bindable =
      b.side.register_memory(b.memory.data(), 4096, kEverything | access::kWindowBind);
  std::unique_ptr<MemoryWindow> window = MemoryWindow::allocate(b.side.device, *b.side.pd, WindowType::two).take();
  const WindowBind bound{.window = window->key(),
                         .new_key = {window->key().value ^ 1},
                         .region = bindable->key(),
                         .address = reinterpret_cast<uint64_t>(b.memory.data()),
                         .length = 4096,
                         .access = access::kRemoteWrite};
  TestDevice third{0x30};
  std::optional<local::TouchRecords::Guard> touch;

  WindowRequest() {
    bring_both();
    local::Revocation revocation;
    EXPECT_EQ(b.side.device.windows().bind(b.side.pd->id(), b.qp->qpn(), bound, revocation).status, success);
    third.process.allocate_qpn();
    introduce(b.side.process, third.process);
    // A peer that was stopped in the middle of a slice, on its way through another queue pair.
    touch.emplace(
        third.process.adapter().touch_records(), 0,
        local::TouchTarget{b.side.process.allocate_qpn(), b.side.process.adapter().view().entry_index(bound.new_key)},
        false);
  }
  SendWork send_with_invalidate(uint64_t id, uint32_t length) {
    SendWork work = send(id, length);
    work.opcode = SendOpcode::send_with_invalidate;
    work.immediate = bound.new_key.value;
    return work;
  }
  SendWork invalidation(uint64_t id) {
    SendWork work = b.work(a, SendOpcode::local_invalidate, id, 0);
    work.sges = {};
    work.immediate = bound.new_key.value;
    return work;
  }
  // A request of a's is, which ends b's queue pair too.
  void be_refused() {
    ASSERT_TRUE(a.post(bad_write(3)).ok());
    b_takes_notices();
    EXPECT_EQ(b.qp->state(), QueuePairState::err);
  }
  bool grants() {
    local::RegionFields fields;
    return b.side.process.adapter().view().read(bound.new_key, fields) && fields.access != 0;
  }
};

TEST_F(WindowRequest, InvalidationEndsWithTheLastTouchAndHoldsNoMessageUp) {
  ASSERT_TRUE(b.post(invalidation(1)).ok());
  EXPECT_FALSE(grants());
  ASSERT_TRUE(receive(21).ok());
  ASSERT_TRUE(a.post(send(2)).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success})) << "the invalidation is not over";
  EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{2, success}));
  touch.reset();
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}, Outcome{1, success}));
}

TEST_F(WindowRequest, AnErrorAfterTheLastTouchFlushesOnlyWhatFollowsTheInvalidation) {
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(b.post(invalidation(id)).ok());
  touch.reset();
  be_refused();
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{1, success}, Outcome{2, flushed}));
}

TEST_F(WindowRequest, AnErrorWaitsForNobodysTouch) {
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(b.post(invalidation(id)).ok());
  be_refused();
  EXPECT_THAT(outcomes(poll_b()), ElementsAre(Outcome{1, flushed}, Outcome{2, flushed}));
}

TEST_F(WindowRequest, AResetForgetsTheInvalidationItWaitsFor) {
  ASSERT_TRUE(b.post(invalidation(1)).ok());
  ASSERT_TRUE(modify(*b.qp, QueuePairState::reset).ok());
  bring(*b.qp, b_attributes());
  WindowBind again = bound;
  again.window = bound.new_key;
  again.new_key.value ^= 2;
  SendWork bind = b.work(a, SendOpcode::bind_window, 3, 0);
  bind.sges = {};
  bind.operands = again;
  ASSERT_TRUE(b.post(bind).ok());
  settle();
  EXPECT_THAT(outcomes(at_b), ElementsAre(Outcome{3, success}));
}

TEST_F(WindowRequest, AMessageThatInvalidatesIsReceivedAfterTheLastTouch) {
  for (const uint32_t length : {0u, 100u, 20'000u}) {
    SCOPED_TRACE(length);
    ASSERT_TRUE(receive(21).ok());
    ASSERT_TRUE(a.post(send_with_invalidate(1, length)).ok());
    settle();
    EXPECT_FALSE(touch && grants());
    EXPECT_EQ(at_b.size(), touch ? 0u : 1u);
    EXPECT_EQ(at_a.size(), touch ? 0u : 1u);
    touch.reset();
    settle();
    ASSERT_THAT(outcomes(at_b), ElementsAre(Outcome{21, success}));
    EXPECT_EQ(at_b[0].flags, completion_flag::kInvalidated);
    EXPECT_EQ(at_b[0].byte_length, length);
    EXPECT_THAT(outcomes(at_a), ElementsAre(Outcome{1, success}));
    EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + length, received(0)));
    at_a.clear(), at_b.clear();
  }
}

}  // namespace
}  // namespace verbatim::model
