// rdma_connect(3) to rdma_establish(3): which events come at which end, in which order, and what is in them. Failures
// too.
#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class Connecting : public TwoEnds {};

TEST_F(Connecting, WithQueuePairsIsToldOnceToEach) {
  connect();
  expect_quiet();
}

TEST_F(Connecting, WithoutAQueuePairGoesOnWhenTheClientSaysSo) {
  ask();
  ASSERT_EQ(accept(), 0);
  EXPECT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  expect_quiet();
  EXPECT_EQ(error_of(rdma_establish(active_.get())), 0);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
  expect_quiet();
  EXPECT_EQ(error_of(rdma_establish(active_.get())), EINVAL) << "twice";
}

TEST_F(Connecting, TellsTheServerWhoAsks) {
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  parameters.responder_resources = 3;
  parameters.initiator_depth = 4;
  parameters.flow_control = 1;
  parameters.retry_count = 5;
  parameters.rnr_retry_count = 6;
  parameters.srq = 1;
  ask(parameters);
  EXPECT_EQ(request_->listen_id, listener_.get());
  EXPECT_NE(request_->id, listener_.get());
  EXPECT_EQ(request_->status, 0);
  EXPECT_EQ(request_->connection.responder_resources, 4)
      << "what the client wants to begin, the server must respond to";
  EXPECT_EQ(request_->connection.initiator_depth, 3);
  EXPECT_EQ(request_->connection.flow_control, 1);
  EXPECT_EQ(request_->connection.retry_count, 5);
  EXPECT_EQ(request_->connection.rnr_retry_count, 6);
  EXPECT_EQ(request_->connection.srq, 1);
  EXPECT_EQ(request_->connection.qp_num, parameters.qp_num);
}

TEST_F(Connecting, TellsTheClientWhatIsOffered) {
  ask();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  parameters.responder_resources = 3;
  parameters.initiator_depth = 4;
  parameters.flow_control = 1;
  parameters.rnr_retry_count = 6;
  parameters.srq = 1;
  ASSERT_EQ(accept(parameters), 0);
  const std::optional<CmEvent> response = client_.take();
  ASSERT_EQ(name(response), "CONNECT_RESPONSE");
  EXPECT_EQ(response->id, active_.get());
  EXPECT_EQ(response->listen_id, nullptr);
  EXPECT_EQ(response->connection.responder_resources, 4);
  EXPECT_EQ(response->connection.initiator_depth, 3);
  EXPECT_EQ(response->connection.flow_control, 1);
  EXPECT_EQ(response->connection.rnr_retry_count, 6);
  EXPECT_EQ(response->connection.srq, 1);
  EXPECT_EQ(response->connection.qp_num, parameters.qp_num);
}

TEST_F(Connecting, WithAQueuePairTellsTheClientWhatIsOfferedInTheEnd) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ask(reading_parameters());
  EXPECT_EQ(request_->connection.qp_num, active_->qp->qp_num) << "not what the program said";
  create_queue_pair(passive_.get());
  ASSERT_EQ(accept(reading_parameters()), 0);
  const std::optional<CmEvent> established = client_.take();
  ASSERT_EQ(name(established), "ESTABLISHED");
  EXPECT_EQ(established->id, active_.get());
  EXPECT_EQ(established->connection.qp_num, passive_->qp->qp_num);
  EXPECT_EQ(established->connection.responder_resources, 1);
  EXPECT_EQ(established->connection.initiator_depth, 1);
}

TEST_F(Connecting, WithoutParametersOffersAllThatTheDeviceCan) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ASSERT_EQ(error_of(rdma_connect(active_.get(), nullptr)), 0);
  take_request();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(active_->verbs, &device), 0);
  EXPECT_EQ(request_->connection.responder_resources, device.max_qp_init_rd_atom);
  EXPECT_EQ(request_->connection.initiator_depth, device.max_qp_rd_atom);
  EXPECT_EQ(request_->connection.retry_count, 7);
  EXPECT_EQ(request_->connection.rnr_retry_count, 7);
  create_queue_pair(passive_.get());
  ASSERT_EQ(error_of(rdma_accept(passive_.get(), nullptr)), 0);
  const std::optional<CmEvent> established = client_.take();
  ASSERT_EQ(name(established), "ESTABLISHED");
  EXPECT_EQ(established->connection.responder_resources, request_->connection.initiator_depth);
  EXPECT_EQ(established->connection.initiator_depth, request_->connection.responder_resources);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
}

TEST_F(Connecting, WithMoreThanTheDeviceCanIsRefused) {
  listen();
  active_ = resolved();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(active_->verbs, &device), 0);
  ASSERT_LT(device.max_qp_rd_atom, RDMA_MAX_RESP_RES) << "else nothing is too much";
  rdma_conn_param greedy = parameters_of_foreign_queue_pair();
  greedy.responder_resources = static_cast<uint8_t>(device.max_qp_rd_atom + 1);
  EXPECT_EQ(error_of(rdma_connect(active_.get(), &greedy)), EINVAL);
  greedy = parameters_of_foreign_queue_pair();
  greedy.initiator_depth = static_cast<uint8_t>(device.max_qp_init_rd_atom + 1);
  EXPECT_EQ(error_of(rdma_connect(active_.get(), &greedy)), EINVAL);
  // What means "as much as can be".
  greedy.initiator_depth = RDMA_MAX_INIT_DEPTH;
  greedy.responder_resources = RDMA_MAX_RESP_RES;
  ask(greedy);
  EXPECT_EQ(request_->connection.responder_resources, device.max_qp_init_rd_atom);
  greedy.responder_resources = static_cast<uint8_t>(device.max_qp_rd_atom + 1);
  EXPECT_EQ(accept(greedy), EINVAL);
  greedy.responder_resources = 1;
  EXPECT_EQ(accept(greedy), 0) << "what failed may be tried again";
}

TEST_F(Connecting, WithNeitherAQueuePairNorParametersIsRefused) {
  listen();
  active_ = resolved();
  EXPECT_EQ(error_of(rdma_connect(active_.get(), nullptr)), EINVAL);
}

TEST_F(Connecting, WhereNobodyListensIsRejectedAsAnInvalidService) {
  active_ = resolved();
  create_queue_pair(active_.get());
  rdma_conn_param parameters = plain_parameters();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  const std::optional<CmEvent> rejected = client_.take();
  EXPECT_EQ(name(rejected), "REJECTED 8");
  EXPECT_EQ(rejected->id, active_.get());
  EXPECT_EQ(query(active_->qp).qp_state, IBV_QPS_ERR);
  EXPECT_EQ(error_of(rdma_connect(active_.get(), &parameters)), EINVAL) << "once";
  expect_quiet();
}

TEST_F(Connecting, ToAPortThatSomebodyOnlyHasBoundIsRejectedAsAnInvalidService) {
  listener_ = create_id(server_.get());
  ASSERT_EQ(bind_to(listener_.get(), address_), 0);
  active_ = resolved();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  EXPECT_EQ(client_.take_name(), "REJECTED 8");
}

TEST_F(Connecting, IsRejectedByTheProgram) {
  ask();
  ASSERT_EQ(error_of(rdma_reject(passive_.get(), nullptr, 0)), 0);
  const std::optional<CmEvent> rejected = client_.take();
  EXPECT_EQ(name(rejected), "REJECTED 28");
  EXPECT_EQ(rejected->private_data, std::vector<uint8_t>(148)) << "as long as the message has room, and zero";
  EXPECT_EQ(accept(), EINVAL);
  EXPECT_EQ(error_of(rdma_reject(passive_.get(), nullptr, 0)), EINVAL) << "twice";
  expect_quiet();
}

TEST_F(Connecting, IsRejectedByTheProgramWithItsData) {
  ask();
  std::vector<uint8_t> said = {1, 2, 3};
  ASSERT_EQ(error_of(rdma_reject(passive_.get(), said.data(), 3)), 0);
  const std::optional<CmEvent> rejected = client_.take();
  EXPECT_EQ(name(rejected), "REJECTED 28");
  said.resize(148);
  EXPECT_EQ(rejected->private_data, said);
}

TEST_F(Connecting, IsRejectedForItsEnhancements) {
  ask();
  ASSERT_EQ(error_of(rdma_reject_ece(passive_.get(), nullptr, 0)), 0);
  EXPECT_EQ(client_.take_name(), "REJECTED 35") << "vendor option not supported (IBTA table 112)";
}

TEST_F(Connecting, IsRejectedWhenTheServerForgetsTheRequest) {
  ask();
  passive_.reset();
  EXPECT_EQ(client_.take_name(), "REJECTED 28");
}

TEST_F(Connecting, IsRejectedWhenTheListenerEndsWithTheRequestUntaken) {
  listen();
  active_ = resolved();
  rdma_conn_param parameters = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  ASSERT_TRUE(server_.is_readable(kSoon));
  listener_.reset();
  EXPECT_FALSE(server_.is_readable());
  EXPECT_EQ(client_.take_name(), "REJECTED 28");
}

TEST_F(Connecting, IsRejectedByTheClientWhoseQueuePairCannotBeSetUp) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ask(plain_parameters());
  ASSERT_EQ(to_state(active_->qp, IBV_QPS_ERR), 0) << "from where it gets nowhere but to RESET";
  ASSERT_EQ(accept(), 0);
  const std::optional<CmEvent> error = client_.take();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->type, RDMA_CM_EVENT_CONNECT_ERROR) << name(error);
  EXPECT_NE(error->status, 0);
  active_.reset();
  const std::optional<CmEvent> rejected = server_.take();
  EXPECT_EQ(name(rejected), "REJECTED 28");
  EXPECT_EQ(rejected->id, passive_.get());
  expect_quiet();
}

TEST_F(Connecting, ThatTheClientGaveUpCannotBeAccepted) {
  ask();
  active_.reset();
  EXPECT_EQ(accept(), EINVAL);
  expect_quiet();
}

TEST_F(Connecting, OfAForeignQueuePairIsToldByWhoSawItsFirstMessage) {
  ask();
  EXPECT_EQ(error_of(rdma_notify(passive_.get(), IBV_EVENT_COMM_EST)), EINVAL) << "not accepted";
  ASSERT_EQ(accept(), 0);
  EXPECT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  EXPECT_EQ(error_of(rdma_notify(passive_.get(), IBV_EVENT_COMM_EST)), 0);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
  EXPECT_EQ(error_of(rdma_notify(passive_.get(), IBV_EVENT_COMM_EST)), EISCONN);
  EXPECT_EQ(error_of(rdma_notify(passive_.get(), IBV_EVENT_PORT_ERR)), EINVAL);
  EXPECT_EQ(error_of(rdma_establish(active_.get())), 0);
  expect_quiet();
}

TEST_F(Connecting, CarriesEnhancementsBothWays) {
  listen();
  active_ = resolved();
  ibv_ece asked{.vendor_id = 0x123, .options = 0x456, .comp_mask = 0};
  ASSERT_EQ(error_of(rdma_set_local_ece(active_.get(), &asked)), 0);
  ask();
  ibv_ece heard{};
  ASSERT_EQ(error_of(rdma_get_remote_ece(passive_.get(), &heard)), 0);
  EXPECT_EQ(heard.vendor_id, 0x123u);
  EXPECT_EQ(heard.options, 0x456u);
  ibv_ece answered{.vendor_id = 0x123, .options = 0x789, .comp_mask = 0};
  ASSERT_EQ(error_of(rdma_set_local_ece(passive_.get(), &answered)), 0);
  ASSERT_EQ(accept(), 0);
  EXPECT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  ASSERT_EQ(error_of(rdma_get_remote_ece(active_.get(), &heard)), 0);
  EXPECT_EQ(heard.options, 0x789u);
}

TEST_F(Connecting, ByTwoWhoListenBothWaysKeepsThemApart) {
  // Each program is the other's client at the same time.
  listen();
  const SocketAddress own = address_.with_port(kPort + 1);
  CmIdHandle other_listener = create_id(client_.get());
  ASSERT_EQ(bind_to(other_listener.get(), own), 0);
  ASSERT_EQ(error_of(rdma_listen(other_listener.get(), 0)), 0);
  active_ = resolved();
  CmIdHandle other_active = create_id(server_.get());
  ASSERT_EQ(resolve_to(other_active.get(), own), 0);
  EXPECT_EQ(server_.take_name(), "ADDR_RESOLVED");
  ASSERT_EQ(error_of(rdma_resolve_route(other_active.get(), kPatience)), 0);
  EXPECT_EQ(server_.take_name(), "ROUTE_RESOLVED");
  rdma_conn_param one = parameters_of_foreign_queue_pair(), other = parameters_of_foreign_queue_pair();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &one)), 0);
  ASSERT_EQ(error_of(rdma_connect(other_active.get(), &other)), 0);
  take_request();
  const std::optional<CmEvent> other_request = client_.take();
  ASSERT_EQ(name(other_request), "CONNECT_REQUEST");
  const CmIdHandle other_passive(other_request->id);
  EXPECT_EQ(other_request->listen_id, other_listener.get());
  EXPECT_EQ(other_request->connection.qp_num, other.qp_num);
  EXPECT_EQ(request_->connection.qp_num, one.qp_num);
}

}  // namespace
}  // namespace verbatim::conformance
