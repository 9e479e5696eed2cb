#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <climits>

namespace {

// As a C program calls it, which may pass any number where the enum is declared.
const char* name_of(int event) { return reinterpret_cast<const char* (*)(int)>(rdma_event_str)(event); }

TEST(EventStr, IsTheNameOfTheEnumerator) {
#define EXPECT_NAME(event) EXPECT_STREQ(rdma_event_str(event), #event)
  EXPECT_NAME(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_NAME(RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_NAME(RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_NAME(RDMA_CM_EVENT_ROUTE_ERROR);
  EXPECT_NAME(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_NAME(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_NAME(RDMA_CM_EVENT_CONNECT_ERROR);
  EXPECT_NAME(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_NAME(RDMA_CM_EVENT_REJECTED);
  EXPECT_NAME(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_NAME(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_NAME(RDMA_CM_EVENT_DEVICE_REMOVAL);
  EXPECT_NAME(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_NAME(RDMA_CM_EVENT_MULTICAST_ERROR);
  EXPECT_NAME(RDMA_CM_EVENT_ADDR_CHANGE);
  EXPECT_NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT);
#undef EXPECT_NAME
}

TEST(EventStr, KnowsTheEventsOfLaterReleases) {
  EXPECT_STREQ(name_of(16), "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
  EXPECT_STREQ(name_of(17), "RDMA_CM_EVENT_ADDRINFO_ERROR");
  EXPECT_STREQ(name_of(18), "RDMA_CM_EVENT_USER");
  EXPECT_STREQ(name_of(19), "RDMA_CM_EVENT_INTERNAL");
}

TEST(EventStr, OfANumberThatIsNoneIsTheWordThatProgramsKnow) {
  for (const int event : {-1, 20, 100, INT_MAX, INT_MIN}) EXPECT_STREQ(name_of(event), "UNKNOWN EVENT") << event;
}

}  // namespace
