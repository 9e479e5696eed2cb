// The GID table follows the host's addresses: IBV_EVENT_GID_CHANGE (ibv_get_async_event(3)).
#include <arpa/inet.h>

#include <cstring>
#include <filesystem>

#include "conformance/support/side.h"
#include "support/network_namespace.h"

namespace verbatim::conformance {
namespace {

bool has_gid(ibv_context* context, const char* text) {
  ibv_gid wanted{};
  EXPECT_EQ(inet_pton(AF_INET6, text, wanted.raw), 1);
  for (int index = 0; index < 256; ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(context, kPort, index, &gid) == 0 && std::memcmp(&gid, &wanted, sizeof gid) == 0) return true;
  }
  return false;
}

void expect_gid_change(const Side& side) {
  std::optional<ibv_async_event> event = side.next_event(kSoon);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(event->element.port_num, 1);
  ibv_ack_async_event(&*event);
}

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class GidChange : public testing_support::InNamespace {};

TEST_F(GidChange, IsAnEventOfEachContextWhenAnAddressComesAndWhenItGoes) {
  in_namespace({"link set dev lo up"}, [] {
    const Side side, other;
    ASSERT_FALSE(has_gid(side.context(), "::ffff:192.0.2.1"));
    ASSERT_TRUE(ip("address add 192.0.2.1/32 dev lo"));
    expect_gid_change(side);
    expect_gid_change(other);
    EXPECT_TRUE(has_gid(side.context(), "::ffff:192.0.2.1"));
    ASSERT_TRUE(ip("address del 192.0.2.1/32 dev lo"));
    expect_gid_change(side);
    EXPECT_FALSE(has_gid(side.context(), "::ffff:192.0.2.1"));
  });
}

// What changes nothing in the table is no event: the next one is that of the address.
TEST_F(GidChange, IsNoEventOfWhatElseHappensToALink) {
  in_namespace({"link set dev lo up"}, [] {
    const Side side;
    ASSERT_TRUE(ip("link set dev lo alias anything"));
    ASSERT_TRUE(ip("-6 address add 2001:db8::1/128 dev lo nodad"));
    expect_gid_change(side);
    EXPECT_TRUE(has_gid(side.context(), "2001:db8::1"));
    EXPECT_FALSE(side.next_event(std::chrono::milliseconds(0)));
  });
}

TEST_F(GidChange, CostsNoThreadInAProgramThatOnlyListsDevices) {
  in_namespace({}, [] {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    EXPECT_STRNE(ibv_get_device_name(list[0]), "");
    EXPECT_NE(ibv_get_device_guid(list[0]), 0u);
    EXPECT_EQ(threads_of_this_process(), 1u);
    ibv_free_device_list(list);
  });
}

}  // namespace
}  // namespace verbatim::conformance
