#include "engine/liveness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "base/file_descriptor.h"
#include "engine/engine.h"
#include "support/test_device.h"

namespace verbatim::engine {
namespace {

// A word that a forked child shares with us.
class SharedWord {
 public:
  SharedWord() {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    word_ = new (memory) std::atomic<uint32_t>(0);
  }
  ~SharedWord() { munmap(word_, 4096); }
  std::atomic<uint32_t>& get() { return *word_; }
  uint32_t owner() const { return word_->load() & FUTEX_TID_MASK; }
  bool owner_died() const { return word_->load() & FUTEX_OWNER_DIED; }
  void wait_for_death() const {
    while (!owner_died()) std::this_thread::yield();
  }

 private:
  std::atomic<uint32_t>* word_;
};

// A child whose thread of its own has set the mark; then its main thread does `then`.
template <class Then>
pid_t fork_marked(SharedWord& word, Then then) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([&] {
      LivenessMark mark;
      mark.set(word.get());
      for (;;) pause();
    }).detach();
    wait_until_alive(word.get());
    then();
    for (;;) pause();
  }
  return child;
}

void reap(pid_t child) {
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(LivenessMark, HoldsItsThreadsNumberWhileTheThreadLives) {
  std::atomic<uint32_t> word{0};
  std::atomic<bool> seen{false};
  pid_t owner = 0;
  std::thread thread([&] {
    owner = gettid();
    LivenessMark mark;
    mark.set(word);
    while (!seen.load()) std::this_thread::yield();
  });
  wait_until_alive(word);
  const uint32_t alive = word.load();
  seen.store(true);
  thread.join();
  EXPECT_EQ(alive, static_cast<uint32_t>(owner));
  EXPECT_TRUE(word.load() & FUTEX_OWNER_DIED);
}

TEST(LivenessMark, AMarkThatWasNeverSetSaysNothing) {
  { const LivenessMark mark; }
  std::atomic<uint32_t> word{0};
  EXPECT_EQ(word.load(), 0u);
}

TEST(LivenessMark, TheKernelMarksTheWordOfAKilledProcess) {
  SharedWord word;
  const pid_t child = fork_marked(word, [] {});
  wait_until_alive(word.get());
  EXPECT_NE(word.owner(), 0u);
  EXPECT_NE(word.owner(), static_cast<uint32_t>(child)) << "the mark is the thread's, not the process's";
  EXPECT_FALSE(word.owner_died());
  reap(child);
  EXPECT_TRUE(word.owner_died());
}

TEST(LivenessMark, TheKernelMarksTheWordOfAProcessThatExits) {
  SharedWord word;
  const pid_t child = fork_marked(word, [] { _exit(3); });
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(word.owner_died());
}

TEST(LivenessMark, TheKernelMarksTheWordOfAnImageThatIsReplaced) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  SharedWord word;
  const pid_t child = fork_marked(word, [&] {
    dup2(reader.get(), 0);
    execl("/bin/cat", "cat", static_cast<char*>(nullptr));
    _exit(127);
  });
  word.wait_for_death();
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the process lives on, with another image";
  writer.reset();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LivenessMark, AStoppedProcessLives) {
  SharedWord word;
  const pid_t child = fork_marked(word, [] { raise(SIGSTOP); });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_FALSE(word.owner_died());
  reap(child);
  EXPECT_TRUE(word.owner_died());
}

TEST(LivenessMark, TheEnginesEndIsTheProcesssEnd) {
  SharedWord word;
  const pid_t child = fork();
  if (child == 0) {
    testing_support::TestDevice side(0x10);
    Engine engine(side.clock);
    if (!engine.start(side.device, {}, &word.get()).ok()) _exit(1);
    for (;;) pause();
  }
  wait_until_alive(word.get());
  EXPECT_FALSE(word.owner_died());
  reap(child);
  EXPECT_TRUE(word.owner_died());
}

}  // namespace
}  // namespace verbatim::engine
