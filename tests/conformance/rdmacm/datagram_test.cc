// Datagrams (RDMA_PS_UDP, RDMA_PS_IPOIB): rdma_connect(3) finds out where they are to be sent, and they arrive.
#include <rdma/rdma_verbs.h>

#include "conformance/rdmacm/support/two_ends.h"
#include "conformance/support/datagram_header.h"

namespace verbatim::conformance {
namespace {

class DatagramService : public TwoEnds, public testing::WithParamInterface<rdma_port_space> {
 protected:
  DatagramService() { space_ = GetParam(); }

  void ask_with_queue_pair() {
    listen();
    active_ = resolved();
    create_queue_pair(active_.get());
    ask(plain_parameters());
  }
  // Of the client's connect, when the server has accepted.
  CmEvent resolve_service() {
    ask_with_queue_pair();
    create_queue_pair(passive_.get());
    EXPECT_EQ(accept(plain_parameters()), 0);
    const std::optional<CmEvent> established = client_.take();
    EXPECT_EQ(name(established), "ESTABLISHED");
    return established.value();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, DatagramService, testing::Values(RDMA_PS_UDP, RDMA_PS_IPOIB),
                         [](const auto& info) { return info.param == RDMA_PS_UDP ? "Udp" : "Ipoib"; });

TEST_P(DatagramService, IsToldToTheClientAlone) {
  const CmEvent established = resolve_service();
  EXPECT_EQ(established.id, active_.get());
  EXPECT_EQ(established.datagram.qp_num, passive_->qp->qp_num);
  EXPECT_EQ(established.datagram.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(established.datagram.ah_attr.port_num, 1);
  EXPECT_EQ(established.datagram.ah_attr.is_global, 1);
  expect_quiet();
  EXPECT_EQ(accept(plain_parameters()), EINVAL) << "once";
}

TEST_P(DatagramService, AsksByARequestWithAnIdentifierOfItsOwn) {
  ask_with_queue_pair();
  EXPECT_EQ(request_->listen_id, listener_.get());
  EXPECT_EQ(passive_->qp_type, IBV_QPT_UD);
  EXPECT_EQ(passive_->ps, space_);
  EXPECT_EQ(passive_->context, &listener_context_);
  EXPECT_NE(passive_->verbs, nullptr);
  EXPECT_EQ(local_address(passive_.get()), address_);
}

TEST_P(DatagramService, LeadsDatagramsThere) {
  CmEvent established = resolve_service();
  const AhHandle way(ibv_create_ah(active_->pd, &established.datagram.ah_attr));
  ASSERT_TRUE(way);
  char sent[32] = "a datagram";
  struct {
    std::array<uint8_t, kDatagramHeader> header{};
    char text[32] = {};
  } received;
  const MrHandle source(rdma_reg_msgs(active_.get(), sent, sizeof sent));
  const MrHandle destination(rdma_reg_msgs(passive_.get(), &received, sizeof received));
  ASSERT_EQ(rdma_post_recv(passive_.get(), &received, &received, sizeof received, destination.get()), 0);
  ASSERT_EQ(rdma_post_ud_send(active_.get(), sent, sent, sizeof sent, source.get(), IBV_SEND_SIGNALED, way.get(),
                              established.datagram.qp_num),
            0);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_send_comp(active_.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_get_recv_comp(passive_.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.byte_len, sizeof received);
  EXPECT_EQ(completion.src_qp, active_->qp->qp_num);
  EXPECT_STREQ(received.text, sent);
}

TEST_P(DatagramService, ThatIsRejectedIsUnreachable) {
  ask_with_queue_pair();
  ASSERT_EQ(error_of(rdma_reject(passive_.get(), nullptr, 0)), 0);
  const std::optional<CmEvent> refused = client_.take();
  EXPECT_EQ(name(refused), "UNREACHABLE 2") << "the status of the answer (IBTA 12.11.2)";
  EXPECT_EQ(refused->id, active_.get());
}

TEST_P(DatagramService, ThatNobodyOffersIsUnreachable) {
  active_ = resolved();
  create_queue_pair(active_.get());
  rdma_conn_param parameters = plain_parameters();
  ASSERT_EQ(error_of(rdma_connect(active_.get(), &parameters)), 0);
  EXPECT_EQ(client_.take_name(), "UNREACHABLE 1");
}

TEST_P(DatagramService, ThatIsForgottenIsUnreachable) {
  ask_with_queue_pair();
  passive_.reset();
  EXPECT_EQ(client_.take_name(), "UNREACHABLE 2");
}

TEST_P(DatagramService, NeedsNoParametersWithAQueuePair) {
  listen();
  active_ = resolved();
  create_queue_pair(active_.get());
  ASSERT_EQ(error_of(rdma_connect(active_.get(), nullptr)), 0);
  take_request();
  create_queue_pair(passive_.get());
  ASSERT_EQ(error_of(rdma_accept(passive_.get(), nullptr)), 0);
  EXPECT_EQ(client_.take_name(), "ESTABLISHED");
}

TEST_P(DatagramService, HasNothingToEstablishOrEnd) {
  resolve_service();
  EXPECT_EQ(error_of(rdma_establish(active_.get())), EINVAL);
  EXPECT_EQ(error_of(rdma_notify(passive_.get(), IBV_EVENT_COMM_EST)), EINVAL);
  expect_quiet();
}

}  // namespace
}  // namespace verbatim::conformance
