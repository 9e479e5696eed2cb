// XRC domains: ibv_open_xrcd(3), ibv_close_xrcd(3).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

class XrcDomain : public testing::Test {
 protected:
  ibv_xrcd* open(int fd, int flags, uint32_t mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) const {
    ibv_xrcd_init_attr init{.comp_mask = mask, .fd = fd, .oflags = flags};
    errno = 0;
    return ibv_open_xrcd(side_.context(), &init);
  }
  int error_of(int fd, int flags, uint32_t mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) const {
    ibv_xrcd* const domain = open(fd, flags, mask);
    const int error = domain ? 0 : errno;
    if (domain) {
      EXPECT_EQ(ibv_close_xrcd(domain), 0);
    }
    return error;
  }

  Side side_;
  const int file_ = memfd_create("domain", MFD_CLOEXEC);
};

TEST_F(XrcDomain, IsOpenedByFileOrWithoutOne) {
  EXPECT_EQ(error_of(-1, O_CREAT), 0);
  EXPECT_EQ(error_of(file_, O_CREAT), 0);
  ibv_xrcd* const domain = open(file_, O_CREAT);
  ASSERT_TRUE(domain);
  EXPECT_EQ(domain->context, side_.context());
  EXPECT_EQ(error_of(file_, 0), 0) << "it is there now";
  EXPECT_EQ(error_of(file_, O_CREAT | O_EXCL), EINVAL);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_EQ(error_of(file_, 0), EAGAIN) << "nobody holds it any more";
}

TEST_F(XrcDomain, NeedsBothMembersAndKnowsNoOthers) {
  EXPECT_EQ(error_of(-1, O_CREAT, 0), EINVAL);
  EXPECT_EQ(error_of(-1, O_CREAT, IBV_XRCD_INIT_ATTR_FD), EINVAL);
  EXPECT_EQ(error_of(-1, O_CREAT, IBV_XRCD_INIT_ATTR_OFLAGS), EINVAL);
  EXPECT_EQ(error_of(-1, O_CREAT, IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | IBV_XRCD_INIT_ATTR_RESERVED),
            EOPNOTSUPP);
}

TEST_F(XrcDomain, OfAFileThatIsNotOpenIsRefused) { EXPECT_EQ(error_of(1 << 20, O_CREAT), EBADF); }

TEST_F(XrcDomain, OfAnotherProcessCannotBeOpened) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    // A process of its own: what the fork has brought over is not used.
    const Side side;
    ibv_xrcd_init_attr init{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file_, .oflags = O_CREAT};
    const char opened = ibv_open_xrcd(side.context(), &init) != nullptr;
    if (write(ready[1], &opened, 1) == 1) pause();
    _exit(1);
  }
  char opened = 0;
  ASSERT_EQ(read(ready[0], &opened, 1), 1);
  EXPECT_TRUE(opened);
  EXPECT_EQ(error_of(file_, 0), EOPNOTSUPP);
  EXPECT_EQ(error_of(file_, O_CREAT | O_EXCL), EINVAL);
  EXPECT_EQ(error_of(file_, O_CREAT), 0) << "one of our own";
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(error_of(file_, O_CREAT | O_EXCL), 0);
}

}  // namespace
}  // namespace verbatim::conformance
