// Commands in states that do not allow them: EINVAL each, and the identifier is as it was.
#include <functional>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

struct Command {
  const char* name;
  std::function<int(rdma_cm_id*)> call;
};

class CommandOutOfTurn : public TwoEnds {
 protected:
  const Command bind_{"bind", [this](rdma_cm_id* id) { return bind_to(id, address_.with_port(0)); }};
  const Command resolve_address_{"resolve_addr", [this](rdma_cm_id* id) { return resolve_to(id, address_); }};
  const Command resolve_route_{"resolve_route", [](rdma_cm_id* id) { return error_of(rdma_resolve_route(id, 1000)); }};
  const Command listen_{"listen", [](rdma_cm_id* id) { return error_of(rdma_listen(id, 0)); }};
  const Command connect_{"connect", [](rdma_cm_id* id) {
                           rdma_conn_param parameters = parameters_of_foreign_queue_pair();
                           return error_of(rdma_connect(id, &parameters));
                         }};
  const Command accept_{"accept", [](rdma_cm_id* id) {
                          rdma_conn_param parameters = parameters_of_foreign_queue_pair();
                          return error_of(rdma_accept(id, &parameters));
                        }};
  const Command establish_{"establish", [](rdma_cm_id* id) { return error_of(rdma_establish(id)); }};
  const Command reject_{"reject", [](rdma_cm_id* id) { return error_of(rdma_reject(id, nullptr, 0)); }};
  const Command reject_ece_{"reject_ece", [](rdma_cm_id* id) { return error_of(rdma_reject_ece(id, nullptr, 0)); }};
  const Command notify_{"notify", [](rdma_cm_id* id) { return error_of(rdma_notify(id, IBV_EVENT_COMM_EST)); }};

  static void expect_refused(rdma_cm_id* id, const std::vector<Command>& commands) {
    for (const Command& command : commands) EXPECT_EQ(command.call(id), EINVAL) << command.name;
  }
  const std::vector<Command> of_connections_{accept_, establish_, reject_, reject_ece_, notify_};
};

TEST_F(CommandOutOfTurn, BeforeAnythingElse) {
  const CmIdHandle id = create_id(client_.get());
  // rdma_resolve_route(3) reads the device's kind, which there is none of.
  expect_refused(id.get(), {connect_});
  expect_refused(id.get(), of_connections_);
  ASSERT_EQ(bind_to(id.get(), address_), 0);
  expect_refused(id.get(), {bind_, resolve_route_, connect_});
  expect_refused(id.get(), of_connections_);
  expect_quiet();
  ASSERT_EQ(resolve_to(id.get(), address_), 0) << "it is as it was";
}

TEST_F(CommandOutOfTurn, OnceTheAddressIsResolved) {
  const CmIdHandle id = create_id(client_.get());
  ASSERT_EQ(resolve_to(id.get(), address_), 0);
  ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
  expect_refused(id.get(), {bind_, resolve_address_, listen_, connect_});
  expect_refused(id.get(), of_connections_);
  expect_quiet();
  ASSERT_EQ(error_of(rdma_resolve_route(id.get(), kPatience)), 0);
}

TEST_F(CommandOutOfTurn, OfAListener) {
  listen();
  expect_refused(listener_.get(), {bind_, resolve_address_, resolve_route_, listen_, connect_});
  expect_refused(listener_.get(), of_connections_);
  expect_quiet();
  ask();
}

TEST_F(CommandOutOfTurn, OfWhoHasAsked) {
  ask();
  expect_refused(active_.get(), {bind_, resolve_address_, resolve_route_, listen_, connect_, accept_, establish_});
  expect_quiet();
  ASSERT_EQ(accept(), 0);
  establish();
}

TEST_F(CommandOutOfTurn, OfWhoIsAsked) {
  ask();
  expect_refused(passive_.get(), {bind_, resolve_address_, resolve_route_, listen_, connect_, establish_, notify_});
  expect_quiet();
  ASSERT_EQ(accept(), 0);
  expect_refused(passive_.get(), {accept_});
  establish();
}

TEST_F(CommandOutOfTurn, OfTheConnected) {
  connect_without_queue_pairs();
  expect_refused(active_.get(), {bind_, resolve_address_, resolve_route_, listen_, connect_, accept_, establish_});
  expect_refused(passive_.get(), {bind_, resolve_address_, resolve_route_, listen_, connect_, accept_, reject_});
  expect_quiet();
}

TEST_F(CommandOutOfTurn, OfTheDisconnected) {
  connect_without_queue_pairs();
  ASSERT_EQ(error_of(rdma_disconnect(active_.get())), 0);
  ASSERT_EQ(server_.take_name(), "DISCONNECTED");
  ASSERT_EQ(error_of(rdma_disconnect(passive_.get())), 0);
  ASSERT_EQ(client_.take_name(), "DISCONNECTED");
  for (const CmIdHandle* id : {&active_, &passive_})
    expect_refused(id->get(),
                   {bind_, resolve_address_, resolve_route_, listen_, connect_, accept_, establish_, reject_});
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
