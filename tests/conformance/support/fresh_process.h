// A child of the test in which the library is still untouched: what it does to itself, nobody else has to live with.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::conformance {

inline constexpr int kCannotBeTriedHere = 77;

// Runs `body` in it, whose failures are the test's. A body that ends the process with kCannotBeTriedHere skips the
// test.
template <class Body>
void in_fresh_process(Body&& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure());
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotBeTriedHere) GTEST_SKIP() << "not permitted here";
  EXPECT_EQ(status, 0);
}

// The first device. Null when it cannot be opened, and errno says why.
inline ibv_context* open_device() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ibv_context* const context = ibv_open_device(devices[0]);
  const int error = errno;
  ibv_free_device_list(devices);
  errno = error;
  return context;
}

}  // namespace verbatim::conformance
