// The device, its port and its tables: ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3), ibv_query_pkey(3).
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

class Device : public testing::Test {
 protected:
  ibv_port_attr port() const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(side_.context(), kPort, &port), 0);
    return port;
  }
  Side side_;
};

bool is_zero(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

TEST_F(Device, PortIsThatOfAnEthernetLinkThatIsUp) {
  const ibv_port_attr seen = port();
  EXPECT_EQ(seen.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(seen.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(seen.lid, 0);
  EXPECT_EQ(seen.max_msg_sz, 1u << 31);
  EXPECT_GE(seen.pkey_tbl_len, 1);
  EXPECT_GE(seen.gid_tbl_len, 1);
  EXPECT_GE(seen.active_mtu, IBV_MTU_256);
  EXPECT_LE(seen.active_mtu, seen.max_mtu);
  EXPECT_NE(seen.active_width, 0);
  EXPECT_NE(seen.active_speed, 0);
}

TEST_F(Device, NoOtherPortThanTheFirst) {
  ibv_port_attr seen{};
  EXPECT_EQ(ibv_query_port(side_.context(), 0, &seen), EINVAL);
  EXPECT_EQ(ibv_query_port(side_.context(), 2, &seen), EINVAL);
}

// What a port query fills, and whether it stays within `size` bytes.
template <class Query>
void expect_port_within(size_t size, const ibv_port_attr& expected, Query&& query) {
  struct {
    ibv_port_attr attributes;
    uint8_t guard[64];
  } room;
  std::memset(&room, 0xa5, sizeof room);
  ASSERT_EQ(query(&room.attributes), 0);
  EXPECT_EQ(std::memcmp(&room, &expected, offsetof(ibv_port_attr, port_cap_flags2)), 0);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&room);
  for (size_t i = size; i < sizeof room; ++i) EXPECT_EQ(bytes[i], 0xa5) << "byte " << i;
}

TEST_F(Device, PortQueryFillsJustTheCallersStructure) {
  const ibv_port_attr expected = port();
  // Callers of before port_cap_flags2, those of today, and those of after active_speed_ex.
  constexpr size_t kSizes[] = {48, 52, 56};
  static_assert(offsetof(ibv_port_attr, port_cap_flags2) == 48);
  verbs_context* const context = verbs_get_ctx(side_.context());
  for (const size_t size : kSizes)
    expect_port_within(size, expected,
                       [&](ibv_port_attr* to) { return context->query_port(side_.context(), kPort, to, size); });
  // The function behind the macro is for the oldest.
  expect_port_within(48, expected, [&](ibv_port_attr* to) {
    return (ibv_query_port)(side_.context(), kPort, reinterpret_cast<_compat_ibv_port_attr*>(to));
  });
}

TEST_F(Device, EveryGidIndexCanBeQueried) {
  const int length = port().gid_tbl_len;
  int used = 0;
  for (int i = 0; i < length; ++i) {
    ibv_gid gid;
    std::memset(&gid, 0xa5, sizeof gid);
    ASSERT_EQ(ibv_query_gid(side_.context(), kPort, i, &gid), 0) << "index " << i;
    ibv_gid_entry entry{};
    const int error = ibv_query_gid_ex(side_.context(), kPort, static_cast<uint32_t>(i), &entry, 0);
    if (is_zero(gid)) {
      EXPECT_EQ(error, ENODATA) << "index " << i;
      continue;
    }
    ++used;
    ASSERT_EQ(error, 0) << "index " << i;
    EXPECT_EQ(std::memcmp(&entry.gid, &gid, sizeof gid), 0);
    EXPECT_EQ(entry.gid_index, static_cast<uint32_t>(i));
    EXPECT_EQ(entry.port_num, kPort);
    EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  }
  EXPECT_GE(used, 1);
  EXPECT_FALSE(is_zero(side_.gid())) << "GID 0 is the default of every program";
}

TEST_F(Device, NoGidBeyondTheTable) {
  ibv_gid gid{};
  const int length = port().gid_tbl_len;
  for (const int index : {length, length + 1, -1})
    EXPECT_NE(ibv_query_gid(side_.context(), kPort, index, &gid), 0) << index;
  EXPECT_NE(ibv_query_gid(side_.context(), 2, 0, &gid), 0);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(side_.context(), kPort, static_cast<uint32_t>(length), &entry, 0), EINVAL);
}

TEST_F(Device, GidTableIsWhatTheQueriesSay) {
  std::vector<ibv_gid_entry> entries(static_cast<size_t>(port().gid_tbl_len));
  const ssize_t count = ibv_query_gid_table(side_.context(), entries.data(), entries.size(), 0);
  ASSERT_GE(count, 1);
  for (ssize_t i = 0; i < count; ++i) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(side_.context(), kPort, static_cast<int>(entries[i].gid_index), &gid), 0);
    EXPECT_FALSE(is_zero(gid));
    EXPECT_EQ(std::memcmp(&gid, &entries[i].gid, sizeof gid), 0);
  }
}

TEST_F(Device, EveryPkeyIndexCanBeQueried) {
  const int length = port().pkey_tbl_len;
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(side_.context(), kPort, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  for (int i = 1; i < length; ++i) EXPECT_EQ(ibv_query_pkey(side_.context(), kPort, i, &pkey), 0);
  EXPECT_NE(ibv_query_pkey(side_.context(), kPort, length, &pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(side_.context(), kPort, 0xffff), 0);
}

TEST_F(Device, ExtendedQueryAgreesWithTheOldOne) {
  ibv_device_attr old{};
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device(side_.context(), &old), 0);
  ASSERT_EQ(ibv_query_device_ex(side_.context(), nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&old, &extended.orig_attr, sizeof old), 0);
  EXPECT_EQ(old.node_guid, ibv_get_device_guid(side_.context()->device));
  EXPECT_EQ(old.phys_port_cnt, 1);
}

// Programs share it with others (ibv_import_device(3)), and some keep a copy without asking whether they may.
TEST_F(Device, CommandDescriptorCanBeDuplicatedAndIsOtherwiseOfNoUse) {
  const int copy = dup(side_.context()->cmd_fd);
  ASSERT_GE(copy, 0) << strerror(errno);
  EXPECT_EQ(write(copy, "", 1), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ibv_import_device(copy), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(close(copy), 0);
}

TEST_F(Device, OpensManyTimesOverAndEachHasItsOwnEvents) {
  const Side other;
  EXPECT_EQ(other.context()->device, side_.context()->device);
  EXPECT_NE(other.context(), side_.context());
  EXPECT_NE(other.context()->async_fd, side_.context()->async_fd);
}

}  // namespace
}  // namespace verbatim::conformance
