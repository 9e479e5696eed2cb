// rdma_disconnect(3), and every other way in which a connection ends between programs that live: which events come, and
// what becomes of the queue pairs.
#include <rdma/rdma_verbs.h>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Disconnecting : public TwoEnds {
 protected:
  static int disconnect(const CmIdHandle& id) { return error_of(rdma_disconnect(id.get())); }
};

TEST_F(Disconnecting, OfTheClientIsToldToTheServerFirst) {
  connect();
  ASSERT_EQ(disconnect(active_), 0);
  EXPECT_EQ(query(active_->qp).qp_state, IBV_QPS_ERR);
  const std::optional<CmEvent> disconnected = server_.take();
  EXPECT_EQ(name(disconnected), "DISCONNECTED");
  EXPECT_EQ(disconnected->id, passive_.get());
  expect_quiet();
  ASSERT_EQ(disconnect(passive_), 0);
  EXPECT_EQ(client_.take_name(), "DISCONNECTED") << "when the server has answered";
  EXPECT_EQ(query(passive_->qp).qp_state, IBV_QPS_ERR);
  EXPECT_EQ(disconnect(active_), 0) << "once more is no error";
  EXPECT_EQ(disconnect(passive_), 0);
  expect_quiet();
}

TEST_F(Disconnecting, OfTheServerIsToldToTheClientFirst) {
  connect();
  ASSERT_EQ(disconnect(passive_), 0);
  EXPECT_EQ(client_.take_name(), "DISCONNECTED");
  expect_quiet();
  ASSERT_EQ(disconnect(active_), 0);
  EXPECT_EQ(server_.take_name(), "DISCONNECTED");
  expect_quiet();
}

TEST_F(Disconnecting, OfBothAtOnceIsToldOnceToEach) {
  connect();
  ASSERT_EQ(disconnect(active_), 0);
  ASSERT_EQ(disconnect(passive_), 0);
  EXPECT_EQ(client_.take_name(), "DISCONNECTED");
  EXPECT_EQ(server_.take_name(), "DISCONNECTED");
  expect_quiet();
}

TEST_F(Disconnecting, LeavesTheQueuePairOfWhoIsToldAlone) {
  connect();
  char buffer[8];
  const MrHandle region(rdma_reg_msgs(passive_.get(), buffer, sizeof buffer));
  ASSERT_EQ(rdma_post_recv(passive_.get(), buffer, buffer, sizeof buffer, region.get()), 0);
  ASSERT_EQ(disconnect(active_), 0);
  ASSERT_EQ(server_.take_name(), "DISCONNECTED");
  EXPECT_EQ(query(passive_->qp).qp_state, IBV_QPS_RTS);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(passive_->recv_cq, 1, &completion), 0) << "the receive stays until the program acts";
  ASSERT_EQ(disconnect(passive_), 0);
  ASSERT_EQ(rdma_get_recv_comp(passive_.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Disconnecting, ByDestroyingTheIdentifierIsToldToTheOther) {
  connect();
  active_.reset();
  EXPECT_EQ(server_.take_name(), "DISCONNECTED");
  EXPECT_EQ(disconnect(passive_), 0);
  expect_quiet();
}

TEST_F(Disconnecting, IsAnsweredByDestroyingTheIdentifier) {
  connect();
  ASSERT_EQ(disconnect(active_), 0);
  ASSERT_EQ(server_.take_name(), "DISCONNECTED");
  passive_.reset();
  EXPECT_EQ(client_.take_name(), "DISCONNECTED");
}

TEST_F(Disconnecting, WithoutQueuePairsIsTheSame) {
  connect_without_queue_pairs();
  ASSERT_EQ(disconnect(active_), 0);
  EXPECT_EQ(server_.take_name(), "DISCONNECTED");
  ASSERT_EQ(disconnect(passive_), 0);
  EXPECT_EQ(client_.take_name(), "DISCONNECTED");
}

TEST_F(Disconnecting, IsFollowedByTheEndOfTimewait) {
  active_ = resolved_with_short_timewait();
  connect_without_queue_pairs();
  ASSERT_EQ(disconnect(active_), 0);
  EXPECT_EQ(server_.take_name(), "DISCONNECTED");
  ASSERT_EQ(disconnect(passive_), 0);
  EXPECT_EQ(client_.take_name(), "DISCONNECTED");
  const std::optional<CmEvent> active_over = client_.take();
  EXPECT_EQ(name(active_over), "TIMEWAIT_EXIT");
  EXPECT_EQ(active_over->id, active_.get());
  const std::optional<CmEvent> passive_over = server_.take();
  EXPECT_EQ(name(passive_over), "TIMEWAIT_EXIT");
  EXPECT_EQ(passive_over->id, passive_.get());
  expect_quiet();
}

TEST_F(Disconnecting, BeforeThereIsAConnectionIsRefused) {
  listen();
  active_ = resolved();
  EXPECT_EQ(disconnect(active_), EINVAL);
  const CmIdHandle idle = create_id(client_.get());
  EXPECT_EQ(disconnect(idle), EINVAL);
}

TEST_F(Disconnecting, LeavesTheListenerAndOtherConnectionsAlone) {
  connect();
  const CmIdHandle first = std::move(active_), first_peer = std::move(passive_);
  connect();
  ASSERT_EQ(disconnect(active_), 0);
  const std::optional<CmEvent> disconnected = server_.take();
  ASSERT_EQ(name(disconnected), "DISCONNECTED");
  EXPECT_EQ(disconnected->id, passive_.get());
  expect_message(first.get(), first_peer.get(), "still here");
  expect_message(first_peer.get(), first.get(), "and back");
  passive_.reset();
  ASSERT_EQ(client_.take_name(), "DISCONNECTED");
  connect();
  expect_message(active_.get(), passive_.get(), "a third one");
}

TEST_F(Disconnecting, WithTheListenerLeavesConnectionsAlone) {
  connect();
  listener_.reset();
  expect_message(active_.get(), passive_.get(), "without it");
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
