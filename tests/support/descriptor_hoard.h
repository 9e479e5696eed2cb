// A process that has used up its descriptors, for as long as the hoard lives. Test code only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/file_descriptor.h"
#include "base/sanitizer.h"

namespace verbatim::testing_support {

// UBSan asks by a pipe what it may read, and takes a pipe that it does not get for memory that is not there.
#ifdef VERBATIM_ADDRESS_SANITIZER
inline constexpr bool kSanitizerNeedsDescriptors = true;
#else
inline constexpr bool kSanitizerNeedsDescriptors = false;
#endif

inline size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  // One of them is the directory's own.
  return static_cast<size_t>(std::distance(begin(all), end(all))) - 1;
}

// Leaves `free` descriptors that may be opened.
class DescriptorHoard {
 public:
  explicit DescriptorHoard(size_t free = 0) {
    // Lower than most, so that taking them all is quick.
    constexpr rlim_t kLimit = 256;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit lower = before_;
    lower.rlim_cur = std::min(lower.rlim_cur, kLimit);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
    for (;;) {
      FileDescriptor one(fcntl(0, F_DUPFD_CLOEXEC, 0));
      if (!one.valid()) break;
      held_.push_back(std::move(one));
    }
    EXPECT_EQ(errno, EMFILE);
    for (; free > 0 && !held_.empty(); --free) held_.pop_back();
  }
  ~DescriptorHoard() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorHoard(const DescriptorHoard&) = delete;
  DescriptorHoard& operator=(const DescriptorHoard&) = delete;

 private:
  rlimit before_{};
  std::vector<FileDescriptor> held_;
};

}  // namespace verbatim::testing_support
