// rdma_create_qp(3), rdma_create_srq(3), rdma_init_qp_attr(3): states and attributes of the queue pair at each step, by
// the library or by the program.
#include <rdma/rdma_verbs.h>

#include "conformance/rdmacm/support/two_ends.h"

namespace verbatim::conformance {
namespace {

class QueuePairOfIdentifier : public TwoEnds {
 protected:
  struct Queried {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr creation{};
  };
  static Queried query_all(ibv_qp* qp) {
    Queried result;
    EXPECT_EQ(ibv_query_qp(qp, &result.attributes, 0xfffff, &result.creation), 0);
    return result;
  }
  struct Prepared {
    int error = 0;
    int mask = 0;
    ibv_qp_attr attributes{};
  };
  static Prepared prepare(rdma_cm_id* id, ibv_qp_state state) {
    Prepared result;
    result.attributes.qp_state = state;
    result.error = error_of(rdma_init_qp_attr(id, &result.attributes, &result.mask));
    return result;
  }
};

// ---- creation ----

TEST_F(QueuePairOfIdentifier, IsInInitWhenItIsMade) {
  active_ = resolved();
  create_queue_pair(active_.get());
  ASSERT_NE(active_->qp, nullptr);
  EXPECT_EQ(active_->qp->qp_type, IBV_QPT_RC);
  EXPECT_EQ(active_->qp->state, IBV_QPS_INIT);
  const Queried queried = query_all(active_->qp);
  EXPECT_EQ(queried.attributes.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(queried.attributes.port_num, 1);
  EXPECT_EQ(queried.attributes.pkey_index, 0);
  EXPECT_EQ(queried.attributes.qp_access_flags, 0u);
}

TEST_F(QueuePairOfIdentifier, OfDatagramsIsInRtsWhenItIsMade) {
  space_ = RDMA_PS_UDP;
  active_ = resolved();
  create_queue_pair(active_.get());
  EXPECT_EQ(active_->qp->state, IBV_QPS_RTS);
  const Queried queried = query_all(active_->qp);
  EXPECT_EQ(queried.attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(queried.attributes.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
}

TEST_F(QueuePairOfIdentifier, GetsQueuesOfItsOwnAndChannels) {
  active_ = resolved();
  create_queue_pair(active_.get());
  ASSERT_TRUE(active_->send_cq && active_->recv_cq && active_->send_cq_channel && active_->recv_cq_channel);
  EXPECT_NE(active_->send_cq, active_->recv_cq);
  EXPECT_NE(active_->send_cq_channel, active_->recv_cq_channel);
  EXPECT_EQ(active_->qp->send_cq, active_->send_cq);
  EXPECT_EQ(active_->qp->recv_cq, active_->recv_cq);
  EXPECT_EQ(active_->send_cq->channel, active_->send_cq_channel);
  EXPECT_EQ(active_->recv_cq->channel, active_->recv_cq_channel);
  EXPECT_EQ(active_->send_cq->cq_context, active_.get()) << "rdma_get_send_comp() asserts it";
  EXPECT_EQ(active_->recv_cq->cq_context, active_.get());
  EXPECT_GE(active_->send_cq->cqe, 8);
  rdma_destroy_qp(active_.get());
  EXPECT_EQ(active_->qp, nullptr);
  EXPECT_EQ(active_->send_cq, nullptr);
  EXPECT_EQ(active_->recv_cq, nullptr);
  EXPECT_EQ(active_->send_cq_channel, nullptr);
  EXPECT_EQ(active_->recv_cq_channel, nullptr);
  create_queue_pair(active_.get());
  EXPECT_NE(active_->qp, nullptr) << "another one";
}

TEST_F(QueuePairOfIdentifier, UsesTheQueuesOfTheProgram) {
  active_ = resolved();
  const CqHandle cq(ibv_create_cq(active_->verbs, 16, nullptr, nullptr, 0));
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  attributes.send_cq = attributes.recv_cq = cq.get();
  ASSERT_EQ(error_of(rdma_create_qp(active_.get(), nullptr, &attributes)), 0);
  EXPECT_EQ(active_->qp->send_cq, cq.get());
  EXPECT_EQ(active_->send_cq, nullptr) << "they are not the identifier's";
  EXPECT_EQ(active_->recv_cq_channel, nullptr);
  active_.reset();
}

TEST_F(QueuePairOfIdentifier, SaysWhatItGot) {
  active_ = resolved();
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  attributes.cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 9};
  ASSERT_EQ(error_of(rdma_create_qp(active_.get(), nullptr, &attributes)), 0);
  const ibv_qp_cap cap = query_all(active_->qp).creation.cap;
  EXPECT_EQ(attributes.cap.max_send_wr, cap.max_send_wr);
  EXPECT_EQ(attributes.cap.max_recv_wr, cap.max_recv_wr);
  EXPECT_EQ(attributes.cap.max_inline_data, cap.max_inline_data);
  EXPECT_GE(attributes.cap.max_send_wr, 3u);
  EXPECT_GE(attributes.cap.max_inline_data, 9u);
}

TEST_F(QueuePairOfIdentifier, IsMadeByTheExtendedCallToo) {
  active_ = resolved();
  ibv_qp_init_attr_ex attributes{};
  attributes.cap = plain_queue_pair(IBV_QPT_RC).cap;
  attributes.qp_type = IBV_QPT_RC;
  attributes.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ASSERT_EQ(error_of(rdma_create_qp_ex(active_.get(), &attributes)), 0);
  EXPECT_EQ(attributes.pd, active_->pd);
  EXPECT_NE(ibv_qp_to_qp_ex(active_->qp), nullptr);
  EXPECT_EQ(active_->qp->state, IBV_QPS_INIT);
}

TEST_F(QueuePairOfIdentifier, CanOnlyBeOne) {
  active_ = resolved();
  create_queue_pair(active_.get());
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  EXPECT_EQ(error_of(rdma_create_qp(active_.get(), nullptr, &attributes)), EINVAL);
}

TEST_F(QueuePairOfIdentifier, ThatCannotBeMadeLeavesNothing) {
  active_ = resolved();
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  attributes.cap.max_inline_data = 1 << 30;
  EXPECT_EQ(error_of(rdma_create_qp(active_.get(), nullptr, &attributes)), EINVAL);
  EXPECT_EQ(active_->qp, nullptr);
  EXPECT_EQ(active_->send_cq, nullptr);
  EXPECT_EQ(active_->recv_cq_channel, nullptr);
  create_queue_pair(active_.get());
}

TEST_F(QueuePairOfIdentifier, NeedsADeviceAndADomainOfIt) {
  const CmIdHandle bound = create_id(client_.get());
  ASSERT_EQ(bind_to(bound.get(), address_.with_port(0)), 0);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  const CmIdHandle unbound = create_id(client_.get());
  EXPECT_EQ(error_of(rdma_create_qp(unbound.get(), bound->pd, &attributes)), EINVAL);
  const Side other;
  EXPECT_EQ(error_of(rdma_create_qp(bound.get(), other.pd(), &attributes)), EINVAL) << "opened once more";
}

TEST_F(QueuePairOfIdentifier, TakesItsReceivesFromASharedQueue) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ask(plain_parameters());
  ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
  ASSERT_EQ(error_of(rdma_create_srq(passive_.get(), nullptr, &shared)), 0);
  ASSERT_NE(passive_->srq, nullptr);
  EXPECT_EQ(passive_->srq->pd, passive_->pd);
  create_queue_pair(passive_.get());
  EXPECT_EQ(passive_->qp->srq, passive_->srq);
  ASSERT_EQ(accept(plain_parameters()), 0);
  const std::optional<CmEvent> established = client_.take();
  ASSERT_EQ(name(established), "ESTABLISHED");
  EXPECT_EQ(established->connection.srq, 1);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
  expect_message(active_.get(), passive_.get(), "by the shared queue");
  rdma_destroy_qp(passive_.get());
  rdma_destroy_srq(passive_.get());
  EXPECT_EQ(passive_->srq, nullptr);
}

TEST_F(QueuePairOfIdentifier, TakesItsReceivesFromAnExtendedSharedQueue) {
  active_ = resolved();
  ibv_srq_init_attr_ex shared{};
  shared.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  EXPECT_EQ(error_of(rdma_create_srq_ex(active_.get(), &shared)), EINVAL) << "of no type";
  shared.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  shared.srq_type = IBV_SRQT_BASIC;
  ASSERT_EQ(error_of(rdma_create_srq_ex(active_.get(), &shared)), 0);
  EXPECT_EQ(shared.pd, active_->pd);
  create_queue_pair(active_.get());
  EXPECT_EQ(active_->qp->srq, active_->srq);
  rdma_destroy_qp(active_.get());
  rdma_destroy_srq(active_.get());
}

// ---- connected ----

TEST_F(QueuePairOfIdentifier, IsConnectedToThePeersAsBothAgreed) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  rdma_conn_param parameters = plain_parameters();
  parameters.responder_resources = 3;
  parameters.initiator_depth = 4;
  parameters.retry_count = 5;
  parameters.rnr_retry_count = 6;
  ask(parameters);
  EXPECT_EQ(query_all(active_->qp).attributes.qp_state, IBV_QPS_INIT);
  create_queue_pair(passive_.get());
  rdma_conn_param answer = plain_parameters();
  answer.responder_resources = 4;
  answer.initiator_depth = 2;
  answer.rnr_retry_count = 1;
  ASSERT_EQ(accept(answer), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  ASSERT_EQ(server_.take_name(), "ESTABLISHED");
  EXPECT_EQ(active_->qp->state, IBV_QPS_RTS);
  EXPECT_EQ(passive_->qp->state, IBV_QPS_RTS);
  const ibv_qp_attr here = query_all(active_->qp).attributes, there = query_all(passive_->qp).attributes;
  EXPECT_EQ(here.dest_qp_num, passive_->qp->qp_num);
  EXPECT_EQ(there.dest_qp_num, active_->qp->qp_num);
  EXPECT_EQ(here.sq_psn, there.rq_psn);
  EXPECT_EQ(here.rq_psn, there.sq_psn);
  EXPECT_EQ(here.path_mtu, there.path_mtu);
  EXPECT_EQ(here.min_rnr_timer, 0) << "655 ms (rdma_connect(3))";
  EXPECT_EQ(there.min_rnr_timer, 0);
  EXPECT_EQ(here.timeout, 19) << "as rdma_rxe";
  EXPECT_EQ(here.max_rd_atomic, 4) << "what the server responds to";
  EXPECT_EQ(here.max_dest_rd_atomic, 2) << "what the server begins";
  EXPECT_EQ(there.max_rd_atomic, 2);
  EXPECT_EQ(there.max_dest_rd_atomic, 4);
  EXPECT_EQ(here.retry_cnt, 5);
  EXPECT_EQ(there.retry_cnt, 5) << "the client's word (rdma_get_cm_event(3))";
  EXPECT_EQ(here.rnr_retry, 1) << "the server's";
  EXPECT_EQ(there.rnr_retry, 6) << "the client's";
  constexpr unsigned kAll = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  EXPECT_EQ(here.qp_access_flags & kAll, kAll);
  EXPECT_EQ(there.qp_access_flags & kAll, kAll);
  EXPECT_EQ(here.ah_attr.is_global, 1);
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(active_->verbs, 1, here.ah_attr.grh.sgid_index, &gid), 0);
  EXPECT_EQ(memcmp(&gid, &there.ah_attr.grh.dgid, sizeof gid), 0);
}

TEST_F(QueuePairOfIdentifier, AllowsNoReadsThatNobodyAskedFor) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ask(plain_parameters());
  create_queue_pair(passive_.get());
  ASSERT_EQ(accept(plain_parameters()), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  constexpr unsigned kReads = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  EXPECT_EQ(query_all(passive_->qp).attributes.qp_access_flags & kReads, 0u);
  EXPECT_NE(query_all(passive_->qp).attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE, 0u);
  EXPECT_EQ(query_all(active_->qp).attributes.max_rd_atomic, 0);
}

TEST_F(QueuePairOfIdentifier, TakesAReceiveBeforeItIsConnected) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ask(plain_parameters());
  create_queue_pair(passive_.get());
  char buffer[64] = {};
  const MrHandle region(rdma_reg_msgs(passive_.get(), buffer, sizeof buffer));
  ASSERT_EQ(rdma_post_recv(passive_.get(), buffer, buffer, sizeof buffer, region.get()), 0);
  ASSERT_EQ(accept(plain_parameters()), 0);
  ASSERT_EQ(client_.take_name(), "ESTABLISHED");
  // The passive side may hear the message before the event.
  char early[] = "early";
  const MrHandle source(rdma_reg_msgs(active_.get(), early, sizeof early));
  ASSERT_EQ(rdma_post_send(active_.get(), nullptr, early, sizeof early, source.get(), 0), 0);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_recv_comp(passive_.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(buffer, early);
  EXPECT_EQ(server_.take_name(), "ESTABLISHED");
}

// ---- by the program ----

TEST_F(QueuePairOfIdentifier, OfTheProgramsOwnIsLedByPreparedAttributes) {
  listen();
  active_ = resolved();
  const CqHandle cq(ibv_create_cq(active_->verbs, 16, nullptr, nullptr, 0));
  ibv_qp_init_attr creation = plain_queue_pair(IBV_QPT_RC);
  creation.send_cq = creation.recv_cq = cq.get();
  const QpHandle here(ibv_create_qp(active_->pd, &creation)), there(ibv_create_qp(active_->pd, &creation));
  ASSERT_TRUE(here && there);
  rdma_conn_param parameters = reading_parameters();
  parameters.qp_num = here->qp_num;
  ask(parameters);
  const auto lead = [](rdma_cm_id* id, ibv_qp* qp) {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      Prepared prepared = prepare(id, state);
      ASSERT_EQ(prepared.error, 0);
      EXPECT_EQ(prepared.attributes.qp_state, state);
      ASSERT_EQ(ibv_modify_qp(qp, &prepared.attributes, prepared.mask), 0) << state;
    }
  };
  lead(passive_.get(), there.get());
  rdma_conn_param answer = reading_parameters();
  answer.qp_num = there->qp_num;
  ASSERT_EQ(accept(answer), 0);
  ASSERT_EQ(client_.take_name(), "CONNECT_RESPONSE");
  lead(active_.get(), here.get());
  ASSERT_EQ(error_of(rdma_establish(active_.get())), 0);
  ASSERT_EQ(server_.take_name(), "ESTABLISHED");
  EXPECT_EQ(query_all(here.get()).attributes.dest_qp_num, there->qp_num);
  char bytes[2] = {'x', 0};
  const MrHandle region(ibv_reg_mr(active_->pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  ibv_sge sge{reinterpret_cast<uint64_t>(&bytes[0]), 1, region->lkey};
  ibv_send_wr request{
      .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  request.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(&bytes[1]), .rkey = region->rkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(here.get(), &request, &bad), 0);
  ibv_wc completion{};
  while (ibv_poll_cq(cq.get(), 1, &completion) == 0) continue;
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
  EXPECT_EQ(bytes[1], 'x');
  passive_.reset();
  active_.reset();
}

TEST_F(QueuePairOfIdentifier, HasPreparedAttributesAsFarAsTheyAreKnown) {
  const CmIdHandle idle = create_id(client_.get());
  EXPECT_EQ(prepare(idle.get(), IBV_QPS_INIT).error, EINVAL) << "no device";
  active_ = resolved();
  const Prepared first = prepare(active_.get(), IBV_QPS_INIT);
  EXPECT_EQ(first.error, 0);
  EXPECT_EQ(first.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(first.attributes.port_num, 1);
  listen();
  ask(reading_parameters());
  EXPECT_EQ(prepare(active_.get(), IBV_QPS_RTR).error, EINVAL) << "nobody has answered";
  const Prepared passive = prepare(passive_.get(), IBV_QPS_RTR);
  EXPECT_EQ(passive.error, 0);
  EXPECT_EQ(passive.mask & kRtrMask, kRtrMask);
  const Prepared ready = prepare(passive_.get(), IBV_QPS_RTS);
  EXPECT_EQ(ready.error, 0);
  EXPECT_EQ(ready.mask & kRtsMask, kRtsMask);
}

TEST_F(QueuePairOfIdentifier, OfDatagramsHasPreparedAttributesWithItsKey) {
  space_ = RDMA_PS_UDP;
  active_ = resolved();
  const Prepared prepared = prepare(active_.get(), IBV_QPS_INIT);
  EXPECT_EQ(prepared.error, 0);
  EXPECT_EQ(prepared.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  EXPECT_EQ(prepared.attributes.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
}

TEST_F(QueuePairOfIdentifier, IsNotTheProgramsToEstablish) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  EXPECT_EQ(error_of(rdma_establish(active_.get())), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
