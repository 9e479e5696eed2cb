#include "model/multicast.h"

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::gid_of;
using testing_support::kHostGid;
using testing_support::TestDevice;

class MulticastAttachment : public testing::Test {
 protected:
  int attach(QueuePairType type, const Gid& group) { return attach_multicast(side_.device, type, qpn_, group).error; }
  int detach(QueuePairType type, const Gid& group) { return detach_multicast(side_.device, type, qpn_, group).error; }

  TestDevice side_{1};
  const Qpn qpn_ = side_.process.allocate_qpn();
  const Gid group_ = gid_of("::ffff:239.1.2.3");
};

TEST_F(MulticastAttachment, IsForUdAndGroupsOnly) {
  for (const QueuePairType type :
       {QueuePairType::rc, QueuePairType::uc, QueuePairType::xrc_send, QueuePairType::xrc_receive})
    EXPECT_EQ(attach(type, group_), EINVAL);
  EXPECT_EQ(attach(QueuePairType::ud, kHostGid), EINVAL);
  EXPECT_EQ(attach(QueuePairType::ud, group_), 0);
  EXPECT_EQ(attach(QueuePairType::ud, gid_of("ff0e::1")), 0);
  EXPECT_EQ(detach(QueuePairType::rc, group_), EINVAL);
  EXPECT_EQ(detach(QueuePairType::ud, kHostGid), EINVAL);
}

TEST_F(MulticastAttachment, MayBeRepeatedAndEndsAtTheFirstDetach) {
  EXPECT_EQ(attach(QueuePairType::ud, group_), 0);
  EXPECT_EQ(attach(QueuePairType::ud, group_), 0);
  EXPECT_EQ(detach(QueuePairType::ud, group_), 0);
  EXPECT_EQ(detach(QueuePairType::ud, group_), EINVAL);
}

TEST_F(MulticastAttachment, AsksForThoseWhoMaySend) {
  EXPECT_FALSE(side_.process.wishes_everyone());
  EXPECT_EQ(attach(QueuePairType::ud, group_), 0);
  EXPECT_TRUE(side_.process.wishes_everyone());
}

TEST_F(MulticastAttachment, IsRefusedWhereNobodyCouldHearOfIt) {
  side_.process.answer_introductions({ECONNREFUSED});
  EXPECT_EQ(attach(QueuePairType::ud, group_), EHOSTUNREACH);
  side_.process.answer_introductions({EMFILE});
  EXPECT_EQ(attach(QueuePairType::ud, group_), EMFILE);
  EXPECT_FALSE(side_.process.adapter().is_attached(qpn_));
}

TEST_F(MulticastAttachment, TableHasTheRoomThatTheDeviceAdvertises) {
  const auto entries = static_cast<int>(local::kAttachmentEntries);
  const DeviceAttributes& attributes = side_.device.attributes();
  EXPECT_EQ(attributes.max_total_mcast_qp_attach, entries);
  EXPECT_LE(attributes.max_mcast_grp, entries);
  EXPECT_LE(attributes.max_mcast_qp_attach, entries);
}

}  // namespace
}  // namespace verbatim::model
