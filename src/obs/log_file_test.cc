#include "obs/log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"

namespace verbatim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A folder of the test's own, removed with all that is in it.
class LogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "log_file_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }

  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path folder_;
};

std::string prefix(pid_t pid, const std::string& level) {
  return "verbatim[" + std::to_string(pid) + "] " + level + ": ";
}

TEST_F(LogFileTest, ALineHasThePidTheLevelAndOneNewline) {
  LogFile log(path("log"));
  log.write(LogLevel::warn, "first");
  log.write(LogLevel::info, "second\nstill second");
  log.write(LogLevel::trace, "");
  EXPECT_THAT(lines_of(path("log")),
              ElementsAre(prefix(getpid(), "warn") + "first", prefix(getpid(), "info") + "second still second",
                          prefix(getpid(), "trace")));
}

TEST_F(LogFileTest, WithoutAPathLinesGoToStderr) {
  LogFile log;
  testing::internal::CaptureStderr();
  log.write(LogLevel::warn, "seen");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), prefix(getpid(), "warn") + "seen\n");
}

TEST_F(LogFileTest, PercentPIsThePidAndTwoPercentSignsAreOne) {
  LogFile log(path("a%p-%%p-%x-%"));
  EXPECT_EQ(log.path_of(42), path("a42-%p-%x-%"));
}

TEST_F(LogFileTest, ARelativePathStaysWhereItWasWhenTheProgramChangesItsFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  LogFile log("here");
  std::filesystem::current_path(before);
  log.write(LogLevel::warn, "line");
  EXPECT_EQ(lines_of(path("here")).size(), 1u);
}

TEST_F(LogFileTest, AnExistingFileIsContinued) {
  std::ofstream(path("log")) << "old\n";
  LogFile(path("log")).write(LogLevel::warn, "new");
  EXPECT_THAT(lines_of(path("log")), ElementsAre("old", prefix(getpid(), "warn") + "new"));
}

TEST_F(LogFileTest, NobodyElseMayReadTheFile) {
  LogFile(path("log")).write(LogLevel::warn, "line");
  struct stat status;
  ASSERT_EQ(stat(path("log").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077, 0u);
}

TEST_F(LogFileTest, AFileThatCannotBeOpenedIsReportedOnceAndTheLinesGoToStderr) {
  LogFile log(path("no/such/folder"));
  testing::internal::CaptureStderr();
  log.write(LogLevel::warn, "first");
  log.write(LogLevel::warn, "second");
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, StartsWith(prefix(getpid(), "warn") + "cannot open the log file " + path("no/such/folder") +
                                 ": No such file or directory"));
  EXPECT_EQ(std::ranges::count(output, '\n'), 3);
  EXPECT_THAT(output, HasSubstr("first\n"));
  EXPECT_THAT(output, HasSubstr("second\n"));
}

TEST_F(LogFileTest, LeavesErrnoAlone) {
  LogFile good(path("log"));
  LogFile bad(path("no/such/folder"));
  testing::internal::CaptureStderr();
  errno = EAGAIN;
  good.write(LogLevel::warn, "line");
  bad.write(LogLevel::warn, "line");
  EXPECT_EQ(errno, EAGAIN);
  testing::internal::GetCapturedStderr();
}

TEST_F(LogFileTest, ALineTooLongForOnePipeWriteIsCutAndMarked) {
  LogFile(path("log")).write(LogLevel::warn, std::string(2 * PIPE_BUF, 'x'));
  const std::vector<std::string> lines = lines_of(path("log"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].size() + 1, static_cast<size_t>(PIPE_BUF));
  EXPECT_THAT(lines[0], testing::EndsWith("x..."));
}

TEST_F(LogFileTest, HoldsNoDescriptorBetweenLines) {
  LogFile log(path("log"));
  log.write(LogLevel::warn, "line");
  const FileDescriptor probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int free_before = probe.get();
  log.write(LogLevel::warn, "line");
  const FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(next.get(), free_before + 1);
}

TEST_F(LogFileTest, AForkedChildWritesItsOwnPidToItsOwnFile) {
  LogFile log(path("log.%p"));
  log.write(LogLevel::warn, "parent");
  const pid_t child = fork();
  if (child == 0) {
    log.write(LogLevel::warn, "child");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(lines_of(log.path_of(getpid())), ElementsAre(prefix(getpid(), "warn") + "parent"));
  EXPECT_THAT(lines_of(log.path_of(child)), ElementsAre(prefix(child, "warn") + "child"));
}

// Every line of every thread of every process is there once, unbroken, and those of one thread are in order.
TEST_F(LogFileTest, ManyThreadsAndProcessesWriteWholeLines) {
  constexpr int kProcesses = 4;
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  LogFile log(path("log"));
  const auto write_lines = [&log](int process) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&log, process, thread] {
        const std::string padding(static_cast<size_t>(97 * (thread + 1)), static_cast<char>('a' + thread));
        for (int line = 0; line < kLines; ++line) {
          log.write(LogLevel::info, fmt::format("{} {} {} {}", process, thread, line, padding));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };

  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      write_lines(process);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  std::map<std::pair<int, int>, int> next;
  for (const std::string& line : lines_of(path("log"))) {
    pid_t pid = 0;
    int process = -1;
    int thread = -1;
    int number = -1;
    char padding[PIPE_BUF];
    ASSERT_EQ(sscanf(line.c_str(), "verbatim[%d] info: %d %d %d %4095s", &pid, &process, &thread, &number, padding), 5)
        << line;
    ASSERT_EQ(pid, children[static_cast<size_t>(process)]);
    ASSERT_EQ(number, (next[{process, thread}]++));
    ASSERT_EQ(std::string(padding),
              std::string(static_cast<size_t>(97 * (thread + 1)), static_cast<char>('a' + thread)));
  }
  EXPECT_EQ(next.size(), static_cast<size_t>(kProcesses * kThreads));
  for (const auto& [writer, count] : next) EXPECT_EQ(count, kLines);
}

}  // namespace
}  // namespace verbatim
