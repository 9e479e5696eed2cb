#include "conformance/rdmacm/support/identifier.h"

#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace verbatim::conformance {

int error_of(int result) {
  const int error = errno;
  if (result == 0) return 0;
  EXPECT_EQ(result, -1) << "rdma_cm(7): RETURN CODES";
  EXPECT_NE(error, 0);
  return error;
}

void DestroyIdentifier::operator()(rdma_cm_id* id) const {
  if (id->qp) rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0) << strerror(errno);
}

CmIdHandle create_id(rdma_event_channel* channel, rdma_port_space space, void* context) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel, &id, context, space), 0) << strerror(errno);
  return CmIdHandle(id);
}

int bind_to(rdma_cm_id* id, const SocketAddress& address) { return error_of(rdma_bind_addr(id, address.get())); }

int resolve_to(rdma_cm_id* id, const SocketAddress& destination) {
  constexpr int kPatience = 2000;
  return error_of(rdma_resolve_addr(id, nullptr, destination.get(), kPatience));
}

rdma_conn_param plain_parameters() {
  rdma_conn_param parameters{};
  parameters.retry_count = parameters.rnr_retry_count = 7;
  return parameters;
}

rdma_conn_param parameters_of_foreign_queue_pair() {
  static std::atomic<uint32_t> last{0x100};
  rdma_conn_param parameters = plain_parameters();
  parameters.qp_num = ++last;
  return parameters;
}

ibv_qp_init_attr plain_queue_pair(ibv_qp_type type) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
  attributes.qp_type = type;
  return attributes;
}

void create_queue_pair(rdma_cm_id* id, ibv_pd* pd) {
  ibv_qp_init_attr attributes = plain_queue_pair(id->qp_type);
  EXPECT_EQ(rdma_create_qp(id, pd, &attributes), 0) << strerror(errno);
}

void expect_message(rdma_cm_id* from, rdma_cm_id* to, const std::string& text) {
  char sent[64] = {}, received[64] = {};
  ASSERT_LT(text.size(), sizeof sent);
  memcpy(sent, text.data(), text.size());
  const MrHandle source(rdma_reg_msgs(from, sent, sizeof sent));
  const MrHandle destination(rdma_reg_msgs(to, received, sizeof received));
  ASSERT_TRUE(source && destination) << strerror(errno);
  ASSERT_EQ(rdma_post_recv(to, received, received, sizeof received, destination.get()), 0) << strerror(errno);
  ASSERT_EQ(rdma_post_send(from, sent, sent, sizeof sent, source.get(), IBV_SEND_SIGNALED), 0) << strerror(errno);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_send_comp(from, &completion), 1) << strerror(errno);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
  EXPECT_EQ(completion.wr_id, reinterpret_cast<uint64_t>(sent));
  ASSERT_EQ(rdma_get_recv_comp(to, &completion), 1) << strerror(errno);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
  EXPECT_EQ(completion.wr_id, reinterpret_cast<uint64_t>(received));
  EXPECT_EQ(completion.byte_len, sizeof sent);
  EXPECT_STREQ(received, text.c_str());
}

}  // namespace verbatim::conformance
