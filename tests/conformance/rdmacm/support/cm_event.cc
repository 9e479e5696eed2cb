#include "conformance/rdmacm/support/cm_event.h"

namespace verbatim::conformance {
namespace {

std::vector<uint8_t> bytes(const void* data, size_t size) {
  const auto* const begin = static_cast<const uint8_t*>(data);
  return begin ? std::vector<uint8_t>(begin, begin + size) : std::vector<uint8_t>();
}

bool is_of_multicast(const rdma_cm_event& event) {
  return event.event == RDMA_CM_EVENT_MULTICAST_JOIN || event.event == RDMA_CM_EVENT_MULTICAST_ERROR;
}

}  // namespace

CmEvent::CmEvent(const rdma_cm_event& event)
    : type(event.event), status(event.status), id(event.id), listen_id(event.listen_id) {
  if (event.id->qp_type != IBV_QPT_UD) {
    connection = event.param.conn;
    private_data = bytes(connection.private_data, connection.private_data_len);
    connection.private_data = nullptr;
    return;
  }
  datagram = event.param.ud;
  if (is_of_multicast(event))
    join_context = const_cast<void*>(datagram.private_data);
  else
    private_data = bytes(datagram.private_data, datagram.private_data_len);
  datagram.private_data = nullptr;
}

std::string name(const CmEvent& event) {
  std::string text = rdma_event_str(event.type);
  constexpr std::string_view kPrefix = "RDMA_CM_EVENT_";
  if (text.starts_with(kPrefix)) text.erase(0, kPrefix.size());
  return event.status == 0 ? text : text + " " + std::to_string(event.status);
}

std::string name(const std::optional<CmEvent>& event) { return event ? name(*event) : "nothing"; }

}  // namespace verbatim::conformance
