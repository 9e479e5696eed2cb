#include "local/thread_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "local/test_child.h"

namespace verbatim::local {
namespace {

// Until it is so; the test's time limit ends the wait otherwise.
template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(ThreadState, ARunningThreadRunsAndIsSwitched) {
  TestChild child([](TestChild::Talk&) {
    for (volatile bool go_on = true; go_on;) {
    }
    return 0;
  });
  const ThreadState first = thread_state(child.pid(), child.pid());
  // Its processor is not its own for ever.
  wait_until([&] { return thread_state(child.pid(), child.pid()).switches != first.switches; });
  wait_until([&] { return thread_state(child.pid(), child.pid()).letter == 'R'; });
  EXPECT_EQ(system_call_of(child.pid(), child.pid()), std::nullopt);
  EXPECT_FALSE(has_ended(child.pid(), child.pid()));
  kill(child.pid(), SIGKILL);
}

TEST(ThreadState, ASleepingThreadStaysAsItIs) {
  TestChild child([](TestChild::Talk& talk) { return static_cast<int>(talk.hear()); });
  wait_until([&] { return thread_state(child.pid(), child.pid()).letter == 'S'; });
  EXPECT_EQ(thread_state(child.pid(), child.pid()), thread_state(child.pid(), child.pid()));
  // Where we may not see it, nothing is said.
  EXPECT_EQ(system_call_of(child.pid(), child.pid()).value_or(SYS_read), SYS_read);
  child.say(0);
}

TEST(ThreadState, AStoppedThreadIsStopped) {
  TestChild child([](TestChild::Talk& talk) { return static_cast<int>(talk.hear()); });
  kill(child.pid(), SIGSTOP);
  wait_until([&] { return thread_state(child.pid(), child.pid()).letter == 'T'; });
  kill(child.pid(), SIGCONT);
  child.say(0);
  EXPECT_EQ(child.join(), 0);
}

TEST(ThreadState, WhatIsNotThereHasEnded) {
  TestChild child([](TestChild::Talk& talk) { return static_cast<int>(talk.hear()); });
  EXPECT_TRUE(has_ended(child.pid(), gettid())) << "another process's thread";
  EXPECT_EQ(thread_state(child.pid(), gettid()).letter, 0);
  const pid_t pid = child.pid();
  child.say(0);
  EXPECT_EQ(child.join(), 0);
  EXPECT_TRUE(has_ended(pid, pid));
  EXPECT_EQ(thread_state(pid, pid), ThreadState{});
  EXPECT_EQ(system_call_of(pid, pid), std::nullopt);
}

}  // namespace
}  // namespace verbatim::local
