#include "agent/slot_claim.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "agent/agent_test_support.h"

namespace verbatim {
namespace {

class SlotClaimTest : public testing::Test {
 protected:
  const AgentIdentity identity_ = agent::test_identity();
  std::mt19937_64 random_{testing::UnitTest::GetInstance()->random_seed() + 1u};
};

TEST_F(SlotClaimTest, NoTwoClaimsHaveOneSlot) {
  std::set<Slot> slots;
  std::vector<SlotClaim> claims;
  for (int i = 0; i < 300; ++i) {
    Result<SlotClaim> claim = SlotClaim::claim_random(identity_, random_);
    ASSERT_TRUE(claim.ok());
    EXPECT_GE(claim.value().slot().value, kFirstSlot);
    EXPECT_LE(claim.value().slot().value, kLastSlot);
    EXPECT_TRUE(slots.insert(claim.value().slot()).second);
    claims.push_back(claim.take());
  }
}

TEST_F(SlotClaimTest, ATakenSlotIsRefusedAndAReleasedOneIsFreeAtOnce) {
  {
    const Result<SlotClaim> first = SlotClaim::claim(identity_, {77});
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(SlotClaim::claim(identity_, {77}).error(), EADDRINUSE);
    AgentIdentity other = identity_;
    other.tag += "x";
    EXPECT_TRUE(SlotClaim::claim(other, {77}).ok());
  }
  EXPECT_TRUE(SlotClaim::claim(identity_, {77}).ok());
}

TEST_F(SlotClaimTest, TheLastFreeSlotIsFoundAndThenThereIsNone) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4500) GTEST_SKIP() << "needs 4,500 descriptors, the hard limit is " << limit.rlim_max;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
  std::vector<SlotClaim> claims;
  for (uint16_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    if (slot == 1234) continue;
    Result<SlotClaim> claim = SlotClaim::claim(identity_, {slot});
    ASSERT_TRUE(claim.ok()) << slot;
    claims.push_back(claim.take());
  }
  const Result<SlotClaim> last = SlotClaim::claim_random(identity_, random_);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last.value().slot(), Slot{1234});
  EXPECT_EQ(SlotClaim::claim_random(identity_, random_).error(), ENOSPC);
}

TEST_F(SlotClaimTest, AKilledProcessesSlotIsFreeWhenItIsGone) {
  agent::ChildProcess child([&](FileDescriptor report) {
    const Result<SlotClaim> claim = SlotClaim::claim(identity_, {42});
    agent::write_byte(report, claim.ok() ? 'y' : 'n');
    ::pause();
  });
  ASSERT_EQ(child.read_byte(), 'y');
  EXPECT_EQ(SlotClaim::claim(identity_, {42}).error(), EADDRINUSE);
  child.kill_and_wait();
  EXPECT_TRUE(SlotClaim::claim(identity_, {42}).ok());
}

TEST(AgentIdentity, NamesDifferByUserNamespaceAndTag) {
  const AgentIdentity base{1000, {1, 2}, ""};
  const auto text = [](const AbstractName& name) {
    return std::string(name.address.sun_path, name.length - offsetof(sockaddr_un, sun_path));
  };
  EXPECT_EQ(text(base.agent_name()), std::string("\0verbatim/1/1000/1/2/agent", 26));
  EXPECT_EQ(text(base.slot_name({4094})), std::string("\0verbatim/1/1000/1/2/slot/4094", 30));
  const AgentIdentity tagged{1000, {1, 2}, "t-1"};
  EXPECT_EQ(text(tagged.agent_name()), std::string("\0verbatim/1/1000/1/2/agent/t-1", 30));
}

TEST(AgentIdentity, ComesFromThisProcessAndTakesOnlyHarmlessTags) {
  ::setenv(kTagVariable, "A_z-09", 1);
  Result<AgentIdentity> identity = AgentIdentity::of_this_process();
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity.value().tag, "A_z-09");
  EXPECT_EQ(identity.value().uid, ::geteuid());
  EXPECT_NE(identity.value().namespaces.user, 0u);
  for (const char* tag : {"a/b", "a b", "\n", "123456789012345678901234567890123"}) {
    ::setenv(kTagVariable, tag, 1);
    EXPECT_EQ(AgentIdentity::of_this_process().error(), EINVAL) << tag;
  }
  ::unsetenv(kTagVariable);
}

}  // namespace
}  // namespace verbatim
