#include "conformance/rdmacm/support/endpoint.h"

#include <cerrno>
#include <cstring>

namespace verbatim::conformance {

AddressInformation::AddressInformation(const char* node, uint16_t port, int flags, rdma_port_space space) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = space;
  hints.ai_qp_type = space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD;
  EXPECT_EQ(rdma_getaddrinfo(node, std::to_string(port).c_str(), &hints, &found_), 0) << strerror(errno);
}

EndpointHandle listening_endpoint(const char* node, uint16_t port) {
  const AddressInformation information(node, port, RAI_PASSIVE);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_ep(&id, information.get(), nullptr, &attributes), 0) << strerror(errno);
  if (id) {
    EXPECT_EQ(rdma_listen(id, 0), 0) << strerror(errno);
  }
  return EndpointHandle(id);
}

EndpointHandle active_endpoint(const char* node, uint16_t port) {
  const AddressInformation information(node, port, 0);
  ibv_qp_init_attr attributes = plain_queue_pair(IBV_QPT_RC);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_ep(&id, information.get(), nullptr, &attributes), 0) << strerror(errno);
  return EndpointHandle(id);
}

}  // namespace verbatim::conformance
