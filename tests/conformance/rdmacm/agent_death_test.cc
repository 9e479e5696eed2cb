// The agent is killed under a program that has connections: its transfers go on, what the agent managed has ended, and
// what is made anew is the next agent's.
#include <csignal>

#include "conformance/rdmacm/support/two_ends.h"
#include "conformance/support/agent.h"

namespace verbatim::conformance {
namespace {

class AfterTheAgentsDeath : public TwoEnds {
 protected:
  static void kill_agent() {
    const std::vector<pid_t> found = agents();
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(kill(found[0], SIGKILL), 0);
  }
};

TEST_F(AfterTheAgentsDeath, TransfersGoOn) {
  connect();
  kill_agent();
  expect_message(active_.get(), passive_.get(), "as before");
  expect_message(passive_.get(), active_.get(), "both ways");
}

TEST_F(AfterTheAgentsDeath, AChannelSaysThatItHasEnded) {
  const CmIdHandle id = create_id(client_.get());
  kill_agent();
  ASSERT_TRUE(client_.is_readable(kSoon)) << "who waits must not wait for ever";
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(error_of(rdma_get_cm_event(client_.get(), &event)), ENODEV);
  EXPECT_EQ(bind_to(id.get(), address_), ENODEV);
  rdma_cm_id* another = nullptr;
  EXPECT_EQ(error_of(rdma_create_id(client_.get(), &another, nullptr, RDMA_PS_TCP)), ENODEV);
}

TEST_F(AfterTheAgentsDeath, WhoWaitsIsWoken) {
  const CmIdHandle id = create_id(client_.get());
  kill_agent();
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(error_of(rdma_get_cm_event(client_.get(), &event)), ENODEV);
}

TEST_F(AfterTheAgentsDeath, EverythingCanBeDestroyed) {
  connect();
  kill_agent();
  ASSERT_TRUE(client_.is_readable(kSoon));
  const CmIdHandle kept = create_id(nullptr);  // and with a new agent
  active_.reset();
  passive_.reset();
  listener_.reset();
}

TEST_F(AfterTheAgentsDeath, WhatIsMadeAnewIsTheNextAgents) {
  connect();
  kill_agent();
  ASSERT_TRUE(client_.is_readable(kSoon));
  const EventChannel client, server;
  const CmIdHandle listener = create_id(server.get());
  ASSERT_EQ(bind_to(listener.get(), address_), 0) << "nobody has the port any more";
  ASSERT_EQ(error_of(rdma_listen(listener.get(), 0)), 0);
  const CmIdHandle active = create_id(client.get());
  ASSERT_EQ(resolve_to(active.get(), address_), 0);
  ASSERT_EQ(client.take_name(), "ADDR_RESOLVED");
  EXPECT_EQ(active->verbs, active_->verbs) << "the same device";
  ASSERT_EQ(error_of(rdma_resolve_route(active.get(), kPatience)), 0);
  ASSERT_EQ(client.take_name(), "ROUTE_RESOLVED");
  create_queue_pair(active.get());
  rdma_conn_param parameters = plain_parameters();
  ASSERT_EQ(error_of(rdma_connect(active.get(), &parameters)), 0);
  const std::optional<CmEvent> request = server.take();
  ASSERT_EQ(name(request), "CONNECT_REQUEST");
  const CmIdHandle passive(request->id);
  create_queue_pair(passive.get());
  ASSERT_EQ(error_of(rdma_accept(passive.get(), &parameters)), 0);
  EXPECT_EQ(client.take_name(), "ESTABLISHED");
  EXPECT_EQ(server.take_name(), "ESTABLISHED");
  expect_message(active.get(), passive.get(), "by the next agent");
  expect_message(active_.get(), passive_.get(), "and the former connection's");
}

}  // namespace
}  // namespace verbatim::conformance
