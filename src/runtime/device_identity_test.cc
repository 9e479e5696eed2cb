#include "runtime/device_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::runtime {
namespace {

uint64_t node_guid() { return device_attributes(Configuration()).node_guid; }

// What a child finds as its node GUID after `prepare`; 0 where that was refused.
uint64_t guid_in_child(bool (*prepare)()) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t guid = prepare() ? node_guid() : 0;
    _exit(write(ends[1], &guid, sizeof guid) == sizeof guid ? 0 : 1);
  }
  close(ends[1]);
  uint64_t guid = 0;
  EXPECT_EQ(read(ends[0], &guid, sizeof guid), static_cast<ssize_t>(sizeof guid));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return guid;
}

TEST(NodeGuid, IsTheSameInEveryProcessOfANetworkNamespace) {
  EXPECT_NE(node_guid(), 0u);
  EXPECT_EQ(node_guid(), node_guid());
  EXPECT_EQ(guid_in_child([] { return true; }), node_guid());
}

TEST(NodeGuid, DiffersInAnotherNetworkNamespace) {
  const uint64_t other =
      guid_in_child([] { return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; });
  if (other == 0) GTEST_SKIP() << "a network namespace cannot be set up here";
  EXPECT_NE(other, node_guid());
}

TEST(DeviceIdentity, KeepsItsOwnVendorWhenNoneIsAskedFor) {
  const model::DeviceAttributes attributes = device_attributes(Configuration());
  EXPECT_EQ(attributes.sys_image_guid, attributes.node_guid);
  EXPECT_EQ(attributes.vendor_id, model::DeviceAttributes().vendor_id);
  EXPECT_EQ(attributes.vendor_part_id, model::DeviceAttributes().vendor_part_id);
  EXPECT_GE(attributes.num_comp_vectors, 1);
}

TEST(DeviceIdentity, TakesTheVendorThatIsAskedFor) {
  Configuration configuration;
  configuration.vendor_id = 0x2c9;
  configuration.vendor_part_id = 0;
  const model::DeviceAttributes attributes = device_attributes(configuration);
  EXPECT_EQ(attributes.vendor_id, 0x2c9u);
  EXPECT_EQ(attributes.vendor_part_id, 0u);
}

}  // namespace
}  // namespace verbatim::runtime
