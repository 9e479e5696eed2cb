#include "local/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/guarded_atomic.h"
#include "base/watched_call.h"
#include "local/test_child.h"
#include "support/log_lines.h"
#include "support/refused_call.h"

namespace verbatim::local {
namespace {

using Result = ProcessMemory::Result;

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kPages = 20;

uint64_t number(const void* address) { return reinterpret_cast<uint64_t>(address); }
iovec piece(void* address, size_t length) { return {address, length}; }
unsigned char pattern(size_t i) { return static_cast<unsigned char>(1 + i % 251); }

// Twenty private pages of zeros and one that cannot be touched: after a fork each process has its own, at the same
// address.
class Memory {
 public:
  Memory() {
    void* memory = mmap(nullptr, (kPages + 1) * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    bytes_ = static_cast<unsigned char*>(memory);
    if (mprotect(end(), kPage, PROT_NONE) != 0) abort();
  }
  Memory(const Memory&) = delete;
  ~Memory() { munmap(bytes_, (kPages + 1) * kPage); }
  unsigned char* bytes() const { return bytes_; }
  unsigned char* end() const { return bytes_ + kPages * kPage; }

 private:
  unsigned char* bytes_;
};

// Calls until everything has moved or nothing more can; `moved` is then the sum.
template <class Call>
ProcessMemory::Outcome whole(size_t length, Call call) {
  ProcessMemory::Outcome sum;
  do {
    watch(kCallSequence);
    const ProcessMemory::Outcome outcome = call(sum.moved);
    sum = {outcome.result, sum.moved + outcome.moved};
  } while (sum.result == Result::done && sum.moved < length);
  return sum;
}

// The other process sleeps; whether its memory is what was written, it says itself when it is told the length.
class OtherProcess : public testing::Test {
 protected:
  OtherProcess()
      : other_([this](TestChild::Talk& talk) {
          talk.say(0);
          const size_t length = talk.hear();
          for (size_t i = 0; i < length; ++i) {
            if (memory_.bytes()[i] != pattern(i)) return 1;
          }
          return memory_.bytes()[length] == 0 ? 0 : 2;
        }),
        reach_(other_.pid()) {
    other_.hear();
    for (size_t i = 0; i < mine_.size(); ++i) mine_[i] = pattern(i);
  }

  ProcessMemory::Outcome write(void* local, uint64_t remote, size_t length, bool ends = true) {
    return whole(length, [&](size_t done) {
      const iovec pieces[] = {piece(static_cast<char*>(local) + done, length - done)};
      return reach_.write(pieces, remote + done, length - done, ends);
    });
  }
  ProcessMemory::Outcome read(void* local, uint64_t remote, size_t length, bool ends = true) {
    return whole(length, [&](size_t done) {
      const iovec pieces[] = {piece(static_cast<char*>(local) + done, length - done)};
      return reach_.read(pieces, remote + done, length - done, ends);
    });
  }

  Memory memory_;
  std::vector<unsigned char> mine_ = std::vector<unsigned char>(ProcessMemory::kMaxLength);
  TestChild other_;
  ProcessMemory reach_;
};

TEST_F(OtherProcess, IsWrittenWhileItSleeps) {
  for (const size_t length : {0, 1, 8, 63, 64, 65, 4095, 4096, 4097, 65536, 81920 - 1}) {
    for (const bool ends : {false, true}) {
      const ProcessMemory::Outcome outcome = write(mine_.data(), number(memory_.bytes()), length, ends);
      EXPECT_EQ(outcome.result, Result::done) << length;
      EXPECT_EQ(outcome.moved, length);
    }
  }
  other_.say(81920 - 1);
  EXPECT_EQ(other_.join(), 0);
}

TEST_F(OtherProcess, IsReadWhereAndAsFarAsAsked) {
  ASSERT_EQ(write(mine_.data(), number(memory_.bytes()), 65536).result, Result::done);
  for (const size_t length : {0, 1, 8, 63, 64, 65, 4097, 50000}) {
    for (const size_t offset : {0, 1, 61}) {
      std::vector<unsigned char> to(length + 2, 0);
      const ProcessMemory::Outcome outcome = read(to.data() + 1, number(memory_.bytes()) + offset, length);
      EXPECT_EQ(outcome.result, Result::done);
      EXPECT_EQ(outcome.moved, length);
      EXPECT_EQ(std::memcmp(to.data() + 1, mine_.data() + offset, length), 0);
      EXPECT_EQ(to.front() + to.back(), 0);
    }
  }
}

TEST_F(OtherProcess, TakesManyPiecesAndStopsAtTheLength) {
  std::vector<iovec> pieces;
  size_t at = 0;
  for (size_t i = 0; i < ProcessMemory::kMaxPieces; ++i) {
    pieces.push_back(piece(mine_.data() + at, i * 7));
    at += i * 7;
  }
  const size_t length = at - 100;
  EXPECT_EQ(whole(length, [&](size_t) { return reach_.write(pieces, number(memory_.bytes()), length, true); }).moved,
            length);
  std::vector<unsigned char> back(at, 0);
  for (iovec& p : pieces) p.iov_base = back.data() + (static_cast<unsigned char*>(p.iov_base) - mine_.data());
  EXPECT_EQ(whole(length, [&](size_t) { return reach_.read(pieces, number(memory_.bytes()), length, true); }).moved,
            length);
  EXPECT_EQ(std::memcmp(back.data(), mine_.data(), length), 0);
  EXPECT_EQ(back[length], 0);
  other_.say(length);
  EXPECT_EQ(other_.join(), 0);
}

TEST_F(OtherProcess, RemoteFaultsAreToldFromLocalOnesAndWhatCameBeforeHasMoved) {
  const size_t good_lengths[] = {0, 1, 100, kPage, 3 * kPage + 5};
  Memory torn;
  for (const size_t good : good_lengths) {
    for (const bool ends : {false, true}) {
      const uint64_t remote = number(memory_.end()) - good;
      unsigned char* local = torn.end() - good;
      for (const ProcessMemory::Outcome outcome :
           {write(mine_.data(), remote, good + 50, ends), read(mine_.data(), remote, good + 50, ends)}) {
        EXPECT_EQ(outcome.result, Result::remote_fault) << good;
        EXPECT_EQ(outcome.moved, good);
      }
      for (const ProcessMemory::Outcome outcome : {write(local, number(memory_.bytes()), good + 50, ends),
                                                   read(local, number(memory_.bytes()), good + 50, ends)}) {
        EXPECT_EQ(outcome.result, Result::local_fault) << good;
        EXPECT_EQ(outcome.moved, good);
      }
    }
  }
}

TEST_F(OtherProcess, AnAddressThatNoProcessHasIsARemoteFault) {
  for (const uint64_t address : {uint64_t{0}, uint64_t{1} << 63, UINT64_MAX - 100}) {
    EXPECT_EQ(write(mine_.data(), address, 100).result, Result::remote_fault) << address;
    EXPECT_EQ(read(mine_.data(), address, 100).result, Result::remote_fault) << address;
  }
}

TEST_F(OtherProcess, ReadOnlyMemoryCannotBeWritten) {
  static const unsigned char constant[64] = {1};
  EXPECT_EQ(read(mine_.data(), number(constant), 64).result, Result::done);
  EXPECT_EQ(write(mine_.data(), number(constant), 64).result, Result::remote_fault);
}

TEST_F(OtherProcess, IsDeadAfterItsEnd) {
  kill(other_.pid(), SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(other_.pid()), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(write(mine_.data(), number(memory_.bytes()), 10).result, Result::dead) << "not yet reaped";
  other_.join();
  EXPECT_EQ(write(mine_.data(), number(memory_.bytes()), 10).result, Result::dead);
  EXPECT_TRUE(threads_of(reach_.pid()).empty());
}

TEST(ProcessMemory, ReachesAProcessWhoseFirstThreadHasEnded) {
  Memory memory;
  TestChild other([&](TestChild::Talk& talk) {
    std::thread([&] {
      talk.say(0);
      _exit(talk.hear() == 1 && memory.bytes()[0] == 77 ? 0 : 1);
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
    return 1;
  });
  other.hear();
  while (threads_of(other.pid()).size() > 1) {  // until the first thread is a zombie that /proc still lists
    std::ifstream stat("/proc/" + std::to_string(other.pid()) + "/stat");
    std::string line;
    std::getline(stat, line);
    if (line.find(") Z") != std::string::npos) break;
  }
  unsigned char byte = 77;
  const iovec pieces[] = {piece(&byte, 1)};
  const ProcessMemory reach(other.pid());
  EXPECT_EQ(whole(1, [&](size_t) { return reach.write(pieces, number(memory.bytes()), 1, true); }).result,
            Result::done);
  other.say(1);
  EXPECT_EQ(other.join(), 0);
}

TEST_F(OtherProcess, AThreadThatWasInterruptedMovesNothing) {
  if (!notices_interruption()) GTEST_SKIP() << "no restartable sequences here";
  const iovec pieces[] = {piece(mine_.data(), 10)};
  watch(kStoreSequence);  // something else, as an interruption leaves it
  const ProcessMemory::Outcome outcome = reach_.write(pieces, number(memory_.bytes()), 10, true);
  EXPECT_EQ(outcome.result, Result::done);
  EXPECT_EQ(outcome.moved, 0u);
  other_.say(0);
  EXPECT_EQ(other_.join(), 0);
}

TEST_F(OtherProcess, OfAnotherUserIsForbidden) {
  if (geteuid() != 0) {
    const iovec pieces[] = {piece(mine_.data(), 10)};
    const ProcessMemory init(1);
    EXPECT_EQ(whole(10, [&](size_t) { return init.read(pieces, number(memory_.bytes()), 10, true); }).result,
              Result::forbidden);
    return;
  }
  TestChild nobody([this](TestChild::Talk&) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
    const bool forbidden = write(mine_.data(), number(memory_.bytes()), 10).result == Result::forbidden &&
                           read(mine_.data(), number(memory_.bytes()), 10).result == Result::forbidden;
    return forbidden ? 0 : 2;
  });
  EXPECT_EQ(nobody.join(), 0);
}

// The filter is one thread's alone: who asks again from another thread would be let through.
TEST(ProcessMemory, AWayThatWasRefusedOnceIsNotTriedAgain) {
  Memory memory;
  const ProcessMemory self(getpid());
  unsigned char byte = 0;
  const iovec pieces[] = {piece(&byte, 1)};
  const auto read = [&](const ProcessMemory& reach) {
    return whole(1, [&](size_t) { return reach.read(pieces, number(memory.bytes()), 1, true); }).result;
  };
  const auto write = [&](const ProcessMemory& reach) {
    return whole(1, [&](size_t) { return reach.write(pieces, number(memory.bytes()), 1, true); }).result;
  };
  testing_support::LogLines lines(LogLevel::info);
  bool refused = false;
  std::thread([&] {
    refused = testing_support::refuse_call(SYS_process_vm_readv);
    EXPECT_TRUE(!refused || read(self) == Result::forbidden);
  }).join();
  if (!refused) GTEST_SKIP() << "no system call can be refused here";
  EXPECT_EQ(read(self), Result::forbidden);
  EXPECT_EQ(lines.count("process_vm_readv: Operation not permitted"), 1);
  EXPECT_EQ(write(self), Result::done);
  EXPECT_EQ(read(ProcessMemory(getpid())), Result::done);
}

// What the kernel is asked for, seen by a tracer: the local pieces of one transfer.
std::vector<iovec> local_pieces_of(bool is_write, const std::vector<iovec>& given, uint64_t remote, size_t length,
                                   bool ends) {
  TestChild child([&](TestChild::Talk&) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 1;
    raise(SIGSTOP);
    const ProcessMemory self(getpid());
    const auto outcome = whole(length, [&](size_t) {  // which is interrupted before its call, or not at all
      return is_write ? self.write(given, remote, length, ends) : self.read(given, remote, length, ends);
    });
    return outcome.result == Result::done && outcome.moved == length ? 0 : 2;
  });
  const uint64_t wanted = is_write ? SYS_process_vm_writev : SYS_process_vm_readv;
  std::vector<iovec> pieces;
  int status = 0;
  while (waitpid(child.pid(), &status, 0) == child.pid() && WIFSTOPPED(status)) {
    ptrace(PTRACE_SETOPTIONS, child.pid(), nullptr, PTRACE_O_TRACESYSGOOD);
    __ptrace_syscall_info info{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child.pid(), sizeof info, &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == wanted) {
      EXPECT_EQ(info.entry.args[4], 1u);
      pieces.resize(info.entry.args[2]);
      const iovec here = piece(pieces.data(), pieces.size() * sizeof(iovec));
      const iovec there = piece(reinterpret_cast<void*>(info.entry.args[1]), here.iov_len);
      EXPECT_EQ(process_vm_readv(child.pid(), &here, 1, &there, 1, 0), static_cast<ssize_t>(here.iov_len));
      break;
    }
    ptrace(PTRACE_SYSCALL, child.pid(), nullptr, nullptr);
  }
  return pieces;
}

TEST(ProcessMemory, TheLastCacheLineOfAMessageIsAPieceOfItsOwn) {
  Memory memory;
  auto* const base = reinterpret_cast<std::byte*>(memory.bytes());
  const std::vector<iovec> one{piece(base + 5, 2000)};
  const std::vector<iovec> three{piece(base + 5, 960), piece(base + 2048, 10), piece(base + 4096, 40)};
  std::vector<iovec> most;
  for (size_t i = 0; i < ProcessMemory::kMaxPieces; ++i) most.push_back(piece(base + 100 * i, 100));
  std::vector<size_t> most_cut(ProcessMemory::kMaxPieces - 1, 100);
  most_cut.insert(most_cut.end(), {36, 64});
  struct Row {
    bool is_write;
    const std::vector<iovec>& local;
    uint64_t remote;
    size_t length;
    bool ends;
    std::vector<size_t> expected;  // lengths of the pieces
  };
  const uint64_t lines = number(base + 8192);
  const Row rows[] = {
      {true, one, lines, 1000, true, {960, 40}},               // 1000 = 15 lines and 40 bytes
      {true, one, lines, 1024, true, {960, 64}},               // the last line is whole
      {true, one, lines, 1024, false, {1024}},                 // the message goes on
      {true, one, lines + 60, 10, true, {4, 6}},               // ten bytes over two lines
      {true, one, lines, 64, true, {64}},                      // one line
      {true, three, lines, 1010, true, {960, 10, 40}},         // it begins where a piece does
      {true, three, lines + 4, 1010, true, {956, 4, 10, 40}},  // it has more than one piece
      {true, three, lines + 10, 960, true, {950, 10}},         // the pieces go on
      {true, most, lines, 3200, true, most_cut},               // as many pieces as there may be
      {false, one, lines, 1000, true, {955, 45}},              // a read's destination is local
      {false, one, lines, 1000, false, {1000}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << (row.is_write ? "write " : "read ") << row.length << " at " << row.remote % 64);
    std::vector<size_t> lengths;
    size_t given = 0;
    size_t within = 0;
    for (const iovec& p : local_pieces_of(row.is_write, row.local, row.remote, row.length, row.ends)) {
      EXPECT_EQ(p.iov_base, static_cast<std::byte*>(row.local[given].iov_base) + within);
      within += p.iov_len;
      if (within == row.local[given].iov_len) {
        ++given;
        within = 0;
      }
      lengths.push_back(p.iov_len);
    }
    EXPECT_EQ(lengths, row.expected);
  }
}

TEST(PtraceScope, IsTheNumberInTheFileAndZeroWithoutOne) {
  const std::string path = testing::TempDir() + "verbatim-ptrace-scope-" + std::to_string(getpid());
  std::ofstream(path) << "2\n";
  EXPECT_EQ(ptrace_scope(path.c_str()), 2);
  std::ofstream(path) << "nonsense\n";
  EXPECT_EQ(ptrace_scope(path.c_str()), 0);
  unlink(path.c_str());
  EXPECT_EQ(ptrace_scope(path.c_str()), 0);
}

TEST(PtraceScope, OnlyScopeOneNeedsPermissionGiven) {
  EXPECT_TRUE(allow_peers(0).ok());
  EXPECT_TRUE(allow_peers(2).ok());
  EXPECT_TRUE(allow_peers(3).ok());
  EXPECT_EQ(allow_peers(1).ok(), access(kPtraceScopePath, F_OK) == 0) << "a kernel without Yama refuses";
}

}  // namespace
}  // namespace verbatim::local
