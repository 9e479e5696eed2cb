// rdma_event_str(3). Programs print the names and people search logs for them, so they are those of the enumerators,
// and the word for a number that is none is that of librdmacm 44. The strings live for ever.
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>

namespace {

constexpr std::array kEventNames{
    "RDMA_CM_EVENT_ADDR_RESOLVED",
    "RDMA_CM_EVENT_ADDR_ERROR",
    "RDMA_CM_EVENT_ROUTE_RESOLVED",
    "RDMA_CM_EVENT_ROUTE_ERROR",
    "RDMA_CM_EVENT_CONNECT_REQUEST",
    "RDMA_CM_EVENT_CONNECT_RESPONSE",
    "RDMA_CM_EVENT_CONNECT_ERROR",
    "RDMA_CM_EVENT_UNREACHABLE",
    "RDMA_CM_EVENT_REJECTED",
    "RDMA_CM_EVENT_ESTABLISHED",
    "RDMA_CM_EVENT_DISCONNECTED",
    "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_JOIN",
    "RDMA_CM_EVENT_MULTICAST_ERROR",
    "RDMA_CM_EVENT_ADDR_CHANGE",
    "RDMA_CM_EVENT_TIMEWAIT_EXIT",
    // From release 60 on.
    "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    "RDMA_CM_EVENT_ADDRINFO_ERROR",
    "RDMA_CM_EVENT_USER",
    "RDMA_CM_EVENT_INTERNAL",
};

}  // namespace

extern "C" const char* rdma_event_str(enum rdma_cm_event_type event) {
  // Any number at all: the caller's enum may hold one that is no enumerator.
  const auto index = static_cast<size_t>(event);
  return index < kEventNames.size() ? kEventNames[index] : "UNKNOWN EVENT";
}
