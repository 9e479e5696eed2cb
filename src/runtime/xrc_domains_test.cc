#include "runtime/xrc_domains.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>

namespace verbatim::runtime {
namespace {

class XrcDomainsOfTwoProcesses : public testing::Test {
 protected:
  XrcDomainsOfTwoProcesses() {
    Result<AgentIdentity> identity = AgentIdentity::of_this_process();
    EXPECT_TRUE(identity.ok());
    identity_ = identity.take();
    identity_.tag = "xrc-" + std::to_string(getpid());
  }
  int error_of(XrcDomains& domains, int fd, int flags) { return domains.open(fd, flags).error(); }

  AgentIdentity identity_;
  FileDescriptor file_{memfd_create("file", MFD_CLOEXEC)};
  FileDescriptor other_file_{memfd_create("other", MFD_CLOEXEC)};
  // They share nothing but the names in the kernel, as two processes would.
  XrcDomains near_{identity_};
  XrcDomains far_{identity_};
};

TEST_F(XrcDomainsOfTwoProcesses, OneFileIsOneDomain) {
  const auto first = near_.open(file_.get(), O_CREAT);
  ASSERT_TRUE(first.ok());
  const FileDescriptor again(dup(file_.get()));
  const auto second = near_.open(again.get(), 0);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first.value(), second.value());
  const auto other = near_.open(other_file_.get(), O_CREAT | O_EXCL);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(first.value(), other.value());
}

TEST_F(XrcDomainsOfTwoProcesses, WithoutAFileEachIsNew) {
  const auto first = near_.open(-1, O_CREAT);
  const auto second = near_.open(-1, O_CREAT);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value(), second.value());
}

TEST_F(XrcDomainsOfTwoProcesses, WhatIsNotThereIsOpenedOnlyToCreateIt) {
  EXPECT_EQ(error_of(near_, file_.get(), 0), EAGAIN);
  EXPECT_EQ(error_of(near_, file_.get(), O_EXCL), EAGAIN);
  EXPECT_EQ(error_of(near_, file_.get(), O_CREAT), 0);
}

TEST_F(XrcDomainsOfTwoProcesses, WhatIsThereIsNotCreatedExclusively) {
  const auto first = near_.open(file_.get(), O_CREAT | O_EXCL);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(error_of(near_, file_.get(), O_CREAT | O_EXCL), EINVAL);
  EXPECT_EQ(error_of(near_, file_.get(), O_CREAT), 0);
}

TEST_F(XrcDomainsOfTwoProcesses, ADomainGoesWithItsLastOwner) {
  {
    const auto first = near_.open(file_.get(), O_CREAT);
    const auto second = near_.open(file_.get(), 0);
    ASSERT_TRUE(first.ok() && second.ok());
  }
  EXPECT_EQ(error_of(near_, file_.get(), 0), EAGAIN);
}

TEST_F(XrcDomainsOfTwoProcesses, ADomainOfAnotherProcessCannotBeOpened) {
  {
    const auto first = far_.open(file_.get(), O_CREAT);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(error_of(near_, file_.get(), 0), EOPNOTSUPP);
    EXPECT_EQ(error_of(near_, file_.get(), O_CREAT | O_EXCL), EINVAL) << "it exists, wherever";
    const auto own = near_.open(file_.get(), O_CREAT);
    ASSERT_TRUE(own.ok()) << "the two ends of a connection may name the same file";
    EXPECT_NE(own.value(), first.value());
    EXPECT_EQ(error_of(near_, file_.get(), 0), 0) << "its own";
  }
  EXPECT_EQ(error_of(near_, file_.get(), O_CREAT | O_EXCL), 0);
}

TEST_F(XrcDomainsOfTwoProcesses, AFileThatIsNotOpenIsRefused) { EXPECT_EQ(error_of(near_, -2, O_CREAT), EBADF); }

TEST_F(XrcDomainsOfTwoProcesses, AForkedChildLetsGoOfItsParentsNames) {
  const auto first = far_.open(file_.get(), O_CREAT);
  ASSERT_TRUE(first.ok());
  far_.abandon();
  EXPECT_EQ(error_of(near_, file_.get(), O_CREAT), 0);
}

}  // namespace
}  // namespace verbatim::runtime
