#include "agent/name_claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "agent/agent_test_support.h"

namespace verbatim {
namespace {

class NameClaim : public testing::Test {
 protected:
  int error_of(uint64_t device, uint64_t inode) const {
    return claim_name(identity_.xrc_domain_name(device, inode)).error();
  }
  const AgentIdentity identity_ = agent::test_identity();
};

TEST_F(NameClaim, ATakenNameIsRefusedAndAReleasedOneIsFreeAtOnce) {
  {
    const Result<FileDescriptor> first = claim_name(identity_.xrc_domain_name(1, 2));
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(error_of(1, 2), EADDRINUSE);
  }
  EXPECT_EQ(error_of(1, 2), 0);
}

TEST_F(NameClaim, OtherFilesOtherUsersAndOtherNamespacesHaveOtherNames) {
  const Result<FileDescriptor> first = claim_name(identity_.xrc_domain_name(1, 2));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(error_of(2, 1), 0);
  EXPECT_EQ(error_of(1, 3), 0);
  for (auto change : {+[](AgentIdentity& other) { ++other.uid; }, +[](AgentIdentity& other) { ++other.namespaces.pid; },
                      +[](AgentIdentity& other) { other.tag += "x"; }}) {
    AgentIdentity other = identity_;
    change(other);
    EXPECT_TRUE(claim_name(other.xrc_domain_name(1, 2)).ok());
  }
}

TEST_F(NameClaim, ADeadProcesssNameIsFree) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<FileDescriptor> claim = claim_name(identity_.xrc_domain_name(1, 2));
    const char ok = claim.ok();
    [[maybe_unused]] const ssize_t written = ::write(ready[1], &ok, 1);
    ::pause();
  }
  char ok = 0;
  ASSERT_EQ(::read(ready[0], &ok, 1), 1);
  EXPECT_TRUE(ok);
  EXPECT_EQ(error_of(1, 2), EADDRINUSE);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(error_of(1, 2), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace verbatim
