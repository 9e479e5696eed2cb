// An event of rdma_get_cm_event(3): as the library gives it, and copied out of that.
#pragma once

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::conformance {

struct AcknowledgeEvent {
  void operator()(rdma_cm_event* event) const { EXPECT_EQ(rdma_ack_cm_event(event), 0); }
};
using CmEventHandle = std::unique_ptr<rdma_cm_event, AcknowledgeEvent>;

struct CmEvent {
  explicit CmEvent(const rdma_cm_event& event);

  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_cm_id* listen_id;
  // One of the two, as the identifier's type has it; without the private data, which is copied too.
  rdma_conn_param connection{};
  rdma_ud_param datagram{};
  std::vector<uint8_t> private_data;
  void* join_context = nullptr;  // of multicast events, in the place of private data
};

// "ESTABLISHED", "REJECTED 28": with the status unless it is 0. "nothing" if there was none.
std::string name(const CmEvent& event);
std::string name(const std::optional<CmEvent>& event);

}  // namespace verbatim::conformance
