// rdma_migrate_id(3): an identifier moves to another event channel, and what waits to be taken moves along.
#include <atomic>
#include <thread>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Migration : public TwoEnds {
 protected:
  int migrate(const CmIdHandle& id) { return error_of(rdma_migrate_id(id.get(), other_.get())); }

  const EventChannel other_;
};

TEST_F(Migration, TakesWaitingEventsAlongAndLeavesThoseOfOthers) {
  CmIdHandle id = create_id(client_.get()), staying = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_EQ(resolve_to(staying.get(), address_), 0);
  ASSERT_TRUE(client_.is_readable(kSoon));
  ASSERT_EQ(migrate(id), 0);
  EXPECT_EQ(id->channel, other_.get());
  const std::optional<CmEvent> moved = other_.take(), left = client_.take();
  EXPECT_EQ(name(moved), "ADDR_RESOLVED");
  EXPECT_EQ(moved->id, id.get());
  EXPECT_EQ(name(left), "ADDR_RESOLVED");
  EXPECT_EQ(left->id, staying.get());
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), 0);
  EXPECT_EQ(other_.take_name(), "ROUTE_RESOLVED");
  expect_quiet();
  id.reset();
}

TEST_F(Migration, OfTheOnlyOneWithEventsMakesTheChannelSilent) {
  CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_TRUE(client_.is_readable(kSoon));
  ASSERT_EQ(migrate(id), 0);
  EXPECT_FALSE(client_.is_readable());
  EXPECT_TRUE(other_.is_readable(kSoon));
  id.reset();
}

TEST_F(Migration, WaitsForEventsThatAreNotAcknowledged) {
  CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  CmEventHandle event = client_.fetch();
  ASSERT_TRUE(event);
  std::atomic<bool> begun{false}, acknowledging{false};
  std::thread migrator([&] {
    begun = true;
    EXPECT_EQ(migrate(id), 0);
    EXPECT_TRUE(acknowledging) << "it did not wait";
  });
  while (!begun) std::this_thread::yield();
  for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
  acknowledging = true;
  event.reset();
  migrator.join();
  id.reset();
}

// As ucmatose -m.
TEST_F(Migration, OfAConnectionIsWhereItsEndIsTold) {
  connect();
  ASSERT_EQ(migrate(active_), 0);
  ASSERT_EQ(error_of(rdma_disconnect(passive_.get())), 0);
  const std::optional<CmEvent> disconnected = other_.take();
  EXPECT_EQ(name(disconnected), "DISCONNECTED");
  EXPECT_EQ(disconnected->id, active_.get());
  expect_quiet();
  active_.reset();
}

TEST_F(Migration, OfAListenerIsWhereItsRequestsCome) {
  listen();
  active_ = resolved();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  ASSERT_TRUE(server_.is_readable(kSoon));
  ASSERT_EQ(migrate(listener_), 0);
  const std::optional<CmEvent> request = other_.take();
  ASSERT_EQ(name(request), "CONNECT_REQUEST");
  passive_.reset(request->id);
  EXPECT_EQ(passive_->channel, other_.get());
  ASSERT_EQ(accept(), 0);
  EXPECT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  ASSERT_EQ(error_of(rdma_establish(active_.get())), 0);
  EXPECT_EQ(other_.take_name(), "ESTABLISHED");
  expect_quiet();
  passive_.reset();
  listener_.reset();
}

// As servers hand each connection to a thread of its own.
TEST_F(Migration, OfARequestsIdentifierLeavesTheListenerBehind) {
  ask();
  ASSERT_EQ(migrate(passive_), 0);
  ASSERT_EQ(accept(), 0);
  EXPECT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  ASSERT_EQ(error_of(rdma_establish(active_.get())), 0);
  EXPECT_EQ(other_.take_name(), "ESTABLISHED");
  EXPECT_EQ(listener_->channel, server_.get());
  expect_quiet();
  passive_.reset();
}

TEST_F(Migration, AndTheEndOfTheFormerChannel) {
  std::optional<EventChannel> former(std::in_place);
  CmIdHandle id = create_id(former->get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_EQ(migrate(id), 0);
  former.reset();
  EXPECT_EQ(other_.take_name(), "ADDR_RESOLVED");
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), 0);
  EXPECT_EQ(other_.take_name(), "ROUTE_RESOLVED");
  id.reset();
}

}  // namespace
}  // namespace verbatim::conformance
