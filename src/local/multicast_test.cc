#include "local/multicast.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "support/local_process.h"

namespace verbatim::local {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using testing_support::LocalProcess;

Gid gid(const char* text) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, text, result.bytes.data()), 1);
  return result;
}

class Multicast : public testing::Test {
 protected:
  Multicast() { introduce(sender_, receiver_); }

  std::vector<Qpn> members(const Gid& group) const {
    std::vector<Qpn> qpns;
    for (const GroupMember& member : group_members(sender_.peers(), group)) qpns.push_back(member.qpn);
    return qpns;
  }

  const Gid group_ = gid("::ffff:239.1.2.3");
  const Gid other_group_ = gid("ff0e::1");
  mutable LocalProcess sender_{1};
  LocalProcess receiver_{100};
};

TEST_F(Multicast, FindsTheAttachedOfEveryProcessOwnFirst) {
  const Qpn far = receiver_.allocate_qpn(), near = sender_.allocate_qpn(), elsewhere = receiver_.allocate_qpn();
  ASSERT_TRUE(receiver_.adapter().attach(far, group_).ok());
  ASSERT_TRUE(receiver_.adapter().attach(elsewhere, other_group_).ok());
  ASSERT_TRUE(sender_.adapter().attach(near, group_).ok());
  EXPECT_THAT(members(group_), ElementsAre(near, far));
  EXPECT_THAT(members(other_group_), ElementsAre(elsewhere));
  const std::vector<GroupMember> found = group_members(sender_.peers(), group_);
  EXPECT_TRUE(found[0].peer->is_self());
  EXPECT_EQ(found[1].peer->incarnation(), receiver_.adapter().incarnation());
}

TEST_F(Multicast, AQueuePairThatIsAttachedTwiceIsFoundOnce) {
  const Qpn qpn = receiver_.allocate_qpn();
  ASSERT_TRUE(receiver_.adapter().attach(qpn, group_).ok());
  ASSERT_TRUE(receiver_.adapter().attach(qpn, group_).ok());
  EXPECT_THAT(members(group_), ElementsAre(qpn));
  ASSERT_TRUE(receiver_.adapter().detach(qpn, group_).ok());
  EXPECT_THAT(members(group_), IsEmpty());
}

TEST_F(Multicast, WhoIsDetachedIsNotFound) {
  const Qpn one = receiver_.allocate_qpn(), other = receiver_.allocate_qpn();
  for (const Qpn qpn : {one, other})
    for (const Gid& group : {group_, other_group_}) ASSERT_TRUE(receiver_.adapter().attach(qpn, group).ok());
  ASSERT_TRUE(receiver_.adapter().detach(one, group_).ok());
  EXPECT_EQ(receiver_.adapter().detach(one, group_).error, EINVAL);
  EXPECT_THAT(members(group_), ElementsAre(other));
  EXPECT_THAT(members(other_group_), UnorderedElementsAre(one, other));
  EXPECT_TRUE(receiver_.adapter().is_attached(one));
}

TEST_F(Multicast, AQueuePairThatIsReleasedLeavesItsGroupsAndNoOther) {
  const Qpn one = receiver_.allocate_qpn(), other = receiver_.allocate_qpn();
  for (const Qpn qpn : {one, other})
    for (const Gid& group : {group_, other_group_}) ASSERT_TRUE(receiver_.adapter().attach(qpn, group).ok());
  receiver_.adapter().release_qpn(one);
  EXPECT_FALSE(receiver_.adapter().is_attached(one));
  EXPECT_TRUE(receiver_.adapter().is_attached(other));
  EXPECT_THAT(members(group_), ElementsAre(other));
  EXPECT_THAT(members(other_group_), ElementsAre(other));
}

TEST_F(Multicast, WhoIsDeadIsNotFound) {
  const Qpn qpn = receiver_.allocate_qpn();
  ASSERT_TRUE(receiver_.adapter().attach(qpn, group_).ok());
  group_members(sender_.peers(), group_).at(0).peer->mark_dead();
  EXPECT_THAT(members(group_), IsEmpty());
}

TEST_F(Multicast, AFullTableTakesNoMoreUntilSomebodyIsDetached) {
  const Qpn qpn = receiver_.allocate_qpn();
  const auto numbered = [&](uint32_t number) {
    Gid group = other_group_;
    std::memcpy(group.bytes.data() + 8, &number, sizeof number);
    return group;
  };
  for (uint32_t i = 0; i < kAttachmentEntries; ++i) ASSERT_TRUE(receiver_.adapter().attach(qpn, numbered(i)).ok());
  EXPECT_EQ(receiver_.adapter().attach(qpn, group_).error, ENOMEM);
  ASSERT_TRUE(receiver_.adapter().detach(qpn, numbered(7)).ok());
  ASSERT_TRUE(receiver_.adapter().attach(qpn, group_).ok());
  EXPECT_THAT(members(group_), ElementsAre(qpn));
  EXPECT_THAT(members(numbered(7)), IsEmpty());
}

}  // namespace
}  // namespace verbatim::local
