// Scenes that are built with ip(8) in a network namespace of a child's own. Test code only.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::testing_support {

class InNamespace : public testing::Test {
 protected:
  // `check` runs in the child, after the commands; its exit status is the verdict.
  void in_namespace(const std::vector<std::string>& commands, const std::function<void()>& check) {
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(kNotAllowed);
      for (const std::string& command : commands) {
        if (!ip(command)) _exit(kNotAllowed);
      }
      check();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "a network namespace cannot be set up here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "see above";
  }

  static bool ip(const std::string& command) { return std::system(("ip " + command).c_str()) == 0; }

 private:
  static constexpr int kNotAllowed = 77;
};

}  // namespace verbatim::testing_support
