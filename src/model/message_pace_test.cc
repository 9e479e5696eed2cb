// How fast messages are let in: as fast as the program takes their completions, on whose heels it posts receives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/queue_pair_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using enum CompletionStatus;

struct MessagePace : testing::Test, QueuePairEnds {
  MessagePace() {
    b.qp = b.make_qp({4, 4, 4, 1, 64});
    connect_both();
  }
  void post_receive(uint64_t id) {
    const Sge sge{reinterpret_cast<uint64_t>(b.memory.data()), 8, b.region->key()};
    ASSERT_TRUE(b.qp->post_receive({id, {&sge, 1}}).ok());
  }
  void send(uint64_t id) { ASSERT_TRUE(a.post(a.work(b, SendOpcode::send, id, 8)).ok()); }
};

TEST_F(MessagePace, WhoHasNotTakenWhatIsThereIsGivenNoMore) {
  for (uint64_t id = 1; id <= 3; ++id) post_receive(id);
  send(11);
  b.side.device.carry_on(b.side.clock.now());
  send(12);
  EXPECT_THAT(outcomes(poll(*b.cq, 1)), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{11, success})) << "nobody has looked for the second";
  EXPECT_THAT(outcomes(poll(*b.cq, 1)), ElementsAre(Outcome{2, success}));
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{12, success}));
  EXPECT_THAT(poll(*b.cq, 1), IsEmpty());
}

TEST_F(MessagePace, WhatAnAnswerSaysOfReceivesNeedsNoLook) {
  for (uint64_t id = 1; id <= 2; ++id) post_receive(id);
  send(11);
  b.side.device.carry_on(b.side.clock.now());
  EXPECT_THAT(outcomes(poll(*b.cq, 1)), ElementsAre(Outcome{1, success}));
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{11, success}));
  local::Adapter& adapter = b.side.process.adapter();
  local::ReceiveCount& count = adapter.receive_count(adapter.receive_count_of(b.qp->qpn()));
  const uint32_t posted = count.posted();
  count.publish(posted - 1, 0);
  send(12);
  EXPECT_THAT(outcomes(poll(*b.cq, 1)), ElementsAre(Outcome{2, success})) << "though there seems to be no receive";
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{12, success}));
  count.publish(posted, 0);
  send(13);
  EXPECT_THAT(outcomes(poll_a()), ElementsAre(Outcome{13, receiver_not_ready_exceeded})) << "who has none left looks";
}

}  // namespace
}  // namespace verbatim::model
