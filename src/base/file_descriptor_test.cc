#include "base/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/cancelled_thread.h"

namespace verbatim {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(FileDescriptorTest, IsClosedAtTheEndOfItsLife) {
  int number = -1;
  {
    const FileDescriptor fd(dup(0));
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptorTest, IsClosedOnceByWhoHasItLast) {
  FileDescriptor first(dup(0));
  const int number = first.get();
  FileDescriptor second(std::move(first));
  first.reset();
  EXPECT_TRUE(is_open(number));
  second = FileDescriptor();
  EXPECT_FALSE(is_open(number));
}

// Else the thread would be unwound from within the destructor, which ends the program.
TEST(FileDescriptorTest, IsClosedByAThreadThatIsBeingCancelled) {
  FileDescriptor fd(dup(0));
  const int number = fd.get();
  EXPECT_TRUE(testing_support::is_not_cancelled_in([&] { const FileDescriptor last(std::move(fd)); }));
  EXPECT_FALSE(is_open(number));
}

}  // namespace
}  // namespace verbatim
