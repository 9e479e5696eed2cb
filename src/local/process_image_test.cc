#include "local/process_image.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <thread>

#include "local/test_child.h"

namespace verbatim::local {
namespace {

TEST(ProcessImage, OfNobodyHasEnded) {
  EXPECT_TRUE(ProcessImage().ended());
  EXPECT_TRUE(ProcessImage(0x7fffffff).ended());
}

TEST(ProcessImage, EndsWithTheProcessAlsoBeforeItIsWaitedFor) {
  TestChild child([](TestChild::Talk& talk) { return static_cast<int>(talk.hear()); });
  const ProcessImage image(child.pid());
  EXPECT_FALSE(image.ended());
  kill(child.pid(), SIGKILL);
  while (!image.ended()) std::this_thread::yield();
  EXPECT_EQ(child.join(), -SIGKILL);
}

TEST(ProcessImage, EndsWithAnExecAlthoughTheProcessGoesOn) {
  TestChild child([](TestChild::Talk& talk) {
    talk.hear();
    execl("/bin/sleep", "sleep", "1000", nullptr);
    return 1;
  });
  const ProcessImage image(child.pid());
  EXPECT_FALSE(image.ended());
  child.say(1);
  while (!image.ended()) std::this_thread::yield();
  EXPECT_EQ(kill(child.pid(), 0), 0);
}

TEST(ProcessImage, OutlivesTheFirstThread) {
  TestChild child([](TestChild::Talk& talk) {
    std::thread([&talk] {
      talk.say(1);
      _exit(static_cast<int>(talk.hear()));
    }).detach();
    return static_cast<int>(syscall(SYS_exit, 0));
  });
  child.hear();
  const ProcessImage image(child.pid());
  EXPECT_FALSE(image.ended());
  child.say(7);
  while (!image.ended()) std::this_thread::yield();
  EXPECT_EQ(child.join(), 7);
}

}  // namespace
}  // namespace verbatim::local
