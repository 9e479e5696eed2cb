#include "base/copy_mark.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace verbatim {
namespace {

// fork(2) without the C library.
pid_t bare_clone() { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(CopyMark, TellsACopy) {
  const CopyMark mark;
  EXPECT_FALSE(mark.is_copy());
  for (pid_t (*copy)() : {+[] { return fork(); }, &bare_clone}) {
    const pid_t child = copy();
    if (child == 0) _exit(mark.is_copy() ? 0 : 1);
    EXPECT_EQ(status_of(child), 0);
    EXPECT_FALSE(mark.is_copy()) << "the original";
  }
}

TEST(CopyMark, ACopyMayHaveAMarkOfItsOwn) {
  const pid_t child = fork();
  if (child == 0) {
    const CopyMark mark;
    if (mark.is_copy()) _exit(1);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(mark.is_copy() ? 0 : 1);
    _exit(status_of(grandchild) == 0 ? 0 : 2);
  }
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace verbatim
