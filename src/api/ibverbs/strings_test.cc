#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <climits>
#include <set>
#include <string>

namespace {

TEST(EventTypeStr, EveryTypeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type) {
    names.insert(ibv_event_type_str(static_cast<ibv_event_type>(type)));
  }
  EXPECT_EQ(names.size(), IBV_EVENT_WQ_FATAL + 1u);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(WcStatusStr, EveryStatusHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    names.insert(ibv_wc_status_str(static_cast<ibv_wc_status>(status)));
  }
  EXPECT_EQ(names.size(), IBV_WC_TM_RNDV_INCOMPLETE + 1u);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(PortStateStr, EveryStateHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int state = IBV_PORT_NOP; state <= IBV_PORT_ACTIVE_DEFER; ++state) {
    names.insert(ibv_port_state_str(static_cast<ibv_port_state>(state)));
  }
  EXPECT_EQ(names.size(), IBV_PORT_ACTIVE_DEFER + 1u);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(NodeTypeStr, EveryTypeHasANameOfItsOwnButTheUnknownOne) {
  std::set<std::string> names;
  for (int type = IBV_NODE_CA; type <= IBV_NODE_UNSPECIFIED; ++type) {
    names.insert(ibv_node_type_str(static_cast<ibv_node_type>(type)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(IBV_NODE_UNSPECIFIED));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
}

// Reaches the functions as a C program does, which may pass any number where the enum is declared.
template <class Enum>
const char* call(const char* (*function)(Enum), int value) {
  return reinterpret_cast<const char* (*)(int)>(function)(value);
}

TEST(Strings, ANumberThatIsNoEnumeratorIsUnknown) {
  for (const int value : {-1, -2, 24, 100, INT_MAX, INT_MIN}) {
    EXPECT_STREQ(call(ibv_wc_status_str, value), "unknown") << value;
    EXPECT_STREQ(call(ibv_event_type_str, value), "unknown") << value;
    EXPECT_STREQ(call(ibv_port_state_str, value), "unknown") << value;
    EXPECT_STREQ(call(ibv_node_type_str, value), "unknown") << value;
  }
  EXPECT_STREQ(call(ibv_node_type_str, 0), "unknown");
}

}  // namespace
