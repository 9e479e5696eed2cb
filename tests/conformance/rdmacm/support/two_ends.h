// The fixture of a client and a server in this process, each with an event channel of its own. What one of them does,
// the agent has done with all that follows from it when the call returns or a little later: events are waited for.
#pragma once

#include <string>
#include <vector>

#include "conformance/rdmacm/support/event_channel.h"
#include "conformance/rdmacm/support/identifier.h"

namespace verbatim::conformance {

class TwoEnds : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 7174;  // of this test's agent alone, like all its ports

  void listen(int backlog = 0) {
    listener_ = create_id(server_.get(), space_, &listener_context_);
    ASSERT_EQ(bind_to(listener_.get(), address_), 0);
    ASSERT_EQ(error_of(rdma_listen(listener_.get(), backlog)), 0);
  }
  // An identifier of the client's whose route is resolved; its events are taken.
  CmIdHandle resolved() { return resolved(address_); }
  CmIdHandle resolved(const SocketAddress& destination) {
    CmIdHandle id = create_id(client_.get(), space_, &client_context_);
    resolve(id.get(), destination);
    return id;
  }
  void resolve(rdma_cm_id* id, const SocketAddress& destination) {
    ASSERT_EQ(resolve_to(id, destination), 0);
    ASSERT_EQ(client_.take_name(), "ADDR_RESOLVED");
    ASSERT_EQ(error_of(rdma_resolve_route(id, kPatience)), 0);
    ASSERT_EQ(client_.take_name(), "ROUTE_RESOLVED");
  }
  // Up to the request, whose identifier is passive_, unacknowledged until its event is asked for again.
  void ask(rdma_conn_param parameters) {
    if (!listener_) listen();
    if (!active_) active_ = resolved();
    ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
    take_request();
  }
  void take_request() {
    request_ = server_.take();
    ASSERT_EQ(name(request_), "CONNECT_REQUEST");
    passive_.reset(request_->id);
  }
  // Without queue pairs: numbers are all that the other end hears of them.
  void ask() { ask(parameters_of_foreign_queue_pair()); }
  int accept(rdma_conn_param parameters = parameters_of_foreign_queue_pair()) {
    return error_of(rdma_accept(passive_.get(), &parameters));
  }
  void establish() {
    ASSERT_EQ(client_.take_name(), "CONNECT_RESPONSE");
    ASSERT_EQ(error_of(rdma_establish(active_.get())), 0);
    ASSERT_EQ(server_.take_name(), "ESTABLISHED");
  }
  void connect_without_queue_pairs() {
    ASSERT_NO_FATAL_FAILURE(ask());
    ASSERT_EQ(accept(), 0);
    establish();
  }
  // With a queue pair at each end, RDMA READs allowed.
  void connect() {
    if (!listener_) listen();
    active_ = resolved();
    create_queue_pair(active_.get());
    ASSERT_NO_FATAL_FAILURE(ask(reading_parameters()));
    create_queue_pair(passive_.get());
    ASSERT_EQ(accept(reading_parameters()), 0);
    ASSERT_EQ(client_.take_name(), "ESTABLISHED");
    ASSERT_EQ(server_.take_name(), "ESTABLISHED");
  }
  static rdma_conn_param reading_parameters() {
    rdma_conn_param parameters = plain_parameters();
    parameters.responder_resources = parameters.initiator_depth = 1;
    return parameters;
  }
  // Shortens the time that packets may live to some milliseconds, and with it TIMEWAIT: of an identifier that is not
  // resolved yet.
  static void shorten_timewait(rdma_cm_id* id) {
    uint8_t timeout = 10;
    ASSERT_EQ(error_of(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout)), 0);
  }
  CmIdHandle resolved_with_short_timewait() {
    CmIdHandle id = create_id(client_.get(), space_, &client_context_);
    shorten_timewait(id.get());
    resolve(id.get(), address_);
    return id;
  }

  // That neither has an event now. The agent does one thing after the other: when it has answered this, it has done
  // what it was asked before.
  void expect_quiet() {
    create_id(client_.get()).reset();
    EXPECT_EQ(client_.take_name({}), "nothing") << "the client's";
    EXPECT_EQ(server_.take_name({}), "nothing") << "the server's";
  }

  static constexpr int kPatience = 2000;  // milliseconds

  rdma_port_space space_ = RDMA_PS_TCP;
  SocketAddress address_ = SocketAddress::parse("127.0.0.1", kPort);
  int listener_context_ = 0, client_context_ = 0;  // their addresses are
  const EventChannel client_, server_;
  CmIdHandle listener_, active_, passive_;
  std::optional<CmEvent> request_;
};

}  // namespace verbatim::conformance
