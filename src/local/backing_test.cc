#include "local/backing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"

namespace verbatim::local {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

size_t open_fds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

struct stat status_of(int fd) {
  struct stat status {};
  fstat(fd, &status);
  return status;
}

class Mapped {
 public:
  Mapped(int fd, size_t pages, int protection = PROT_READ | PROT_WRITE, int flags = MAP_SHARED, size_t first_page = 0)
      : length_(pages * kPage) {
    void* memory = mmap(nullptr, length_, protection, flags, fd, static_cast<off_t>(first_page * kPage));
    if (memory == MAP_FAILED) abort();
    bytes_ = static_cast<char*>(memory);
  }
  Mapped(const Mapped&) = delete;
  ~Mapped() { munmap(bytes_, length_); }
  char* bytes() const { return bytes_; }
  char* page(size_t index) const { return bytes_ + index * kPage; }
  uint64_t address(size_t index = 0) const { return reinterpret_cast<uint64_t>(page(index)); }

 private:
  char* bytes_;
  size_t length_;
};

FileDescriptor memory_file(size_t pages) {
  FileDescriptor fd(memfd_create("backing", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(fd.get(), static_cast<off_t>(pages * kPage)) != 0) abort();
  return fd;
}

class Backing : public testing::Test {
 protected:
  Backing() : path_("/dev/shm/verbatim-backing-test-" + std::to_string(getpid())) {}
  ~Backing() override { unlink(path_.c_str()); }

  FileDescriptor named_file(size_t pages) {
    FileDescriptor fd(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (ftruncate(fd.get(), static_cast<off_t>(pages * kPage)) != 0) abort();
    return fd;
  }
  std::optional<OwnedBacking> find(uint64_t address, uint64_t length) {
    Result<std::optional<OwnedBacking>> found = registry_.find(address, length);
    EXPECT_TRUE(found.ok());
    return found.ok() ? found.take() : std::nullopt;
  }

  const std::string path_;
  BackingRegistry registry_;
};

// That the fd is of the file the memory is a mapping of: what is written to the one is read from the other.
void expect_same_bytes(const FileBacking& backing, char* memory) {
  static char next = 'A';
  *memory = ++next;
  char byte = 0;
  EXPECT_EQ(pread(backing.fd, &byte, 1, static_cast<off_t>(backing.offset)), 1);
  EXPECT_EQ(byte, next);
}

TEST_F(Backing, OfAMemfdIsFoundAmongOurFds) {
  const FileDescriptor fd = memory_file(4);
  const Mapped memory(fd.get(), 3, PROT_READ | PROT_WRITE, MAP_SHARED, 1);
  const auto found = find(memory.address() + 100, kPage);
  ASSERT_TRUE(found);
  const FileBacking& backing = found->backing();
  EXPECT_NE(backing.fd, fd.get()) << "one of our own";
  EXPECT_EQ(backing.device, status_of(fd.get()).st_dev);
  EXPECT_EQ(backing.inode, status_of(fd.get()).st_ino);
  EXPECT_EQ(backing.offset, kPage + 100);
  EXPECT_TRUE(backing.writable);
  EXPECT_TRUE(fcntl(backing.fd, F_GETFD) & FD_CLOEXEC);
  EXPECT_EQ(fcntl(backing.fd, F_GETFL) & O_ACCMODE, O_RDWR);
  expect_same_bytes(backing, memory.bytes() + 100);
}

TEST_F(Backing, OfAClosedFileIsFoundByItsPath) {
  FileDescriptor fd = named_file(2);
  const Mapped memory(fd.get(), 2);
  fd.reset();
  const auto found = find(memory.address(), 2 * kPage);
  ASSERT_TRUE(found);
  expect_same_bytes(found->backing(), memory.bytes());
}

TEST_F(Backing, OfADeletedFileIsFoundWhileItIsOpen) {
  const FileDescriptor fd = named_file(2);
  const Mapped memory(fd.get(), 2);
  unlink(path_.c_str());
  const auto found = find(memory.address(), 2 * kPage);
  ASSERT_TRUE(found);
  expect_same_bytes(found->backing(), memory.bytes());
}

TEST_F(Backing, OfADeletedAndClosedFileIsNone) {
  FileDescriptor fd = named_file(2);
  const Mapped memory(fd.get(), 2);
  unlink(path_.c_str());
  fd.reset();
  EXPECT_FALSE(find(memory.address(), 2 * kPage));
}

TEST_F(Backing, IsNotAnotherFileThatNowHasThePath) {
  FileDescriptor fd = named_file(2);
  const Mapped memory(fd.get(), 2);
  unlink(path_.c_str());
  fd = named_file(2);
  EXPECT_FALSE(find(memory.address(), 2 * kPage));
}

TEST_F(Backing, IsNotAPipeThatNowHasThePath) {
  FileDescriptor fd = named_file(2);
  const Mapped memory(fd.get(), 2);
  unlink(path_.c_str());
  fd.reset();
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(find(memory.address(), 2 * kPage));
}

TEST_F(Backing, OfAReadOnlyMappingCanOnlyBeRead) {
  const FileDescriptor fd = memory_file(2);
  const Mapped memory(fd.get(), 2, PROT_READ);
  const auto found = find(memory.address(), kPage);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->backing().writable);
  EXPECT_EQ(fcntl(found->backing().fd, F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(Backing, OfPrivateMemoryIsNone) {
  const FileDescriptor fd = memory_file(2);
  EXPECT_FALSE(find(Mapped(-1, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS).address(), kPage));
  EXPECT_FALSE(find(Mapped(fd.get(), 2, PROT_READ | PROT_WRITE, MAP_PRIVATE).address(), kPage));
  EXPECT_FALSE(find(reinterpret_cast<uint64_t>(&kPage), 1));
}

TEST_F(Backing, OfSharedMemoryWithoutAFileIsNone) {
  const Mapped anonymous(-1, 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_FALSE(find(anonymous.address(), kPage));
  const int id = shmget(IPC_PRIVATE, kPage, IPC_CREAT | 0600);
  void* memory = shmat(id, nullptr, 0);
  shmctl(id, IPC_RMID, nullptr);
  ASSERT_NE(memory, reinterpret_cast<void*>(-1));
  EXPECT_FALSE(find(reinterpret_cast<uint64_t>(memory), kPage));
  shmdt(memory);
}

TEST_F(Backing, OfNothingMappedIsNone) {
  uint64_t address;
  {
    const FileDescriptor fd = memory_file(2);
    const Mapped memory(fd.get(), 2);
    address = memory.address();
    EXPECT_FALSE(find(address, 100 * kPage)) << "the range leaves the mapping";
  }
  EXPECT_FALSE(find(address, kPage));
}

TEST_F(Backing, GoesAcrossMappingsThatContinueEachOther) {
  const FileDescriptor fd = memory_file(4);
  const Mapped memory(fd.get(), 4);
  ASSERT_EQ(mprotect(memory.page(1), kPage, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  const auto whole = find(memory.address() + 1, 4 * kPage - 1);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->backing().writable);
  EXPECT_EQ(whole->backing().offset, 1u);
  ASSERT_EQ(mprotect(memory.page(2), kPage, PROT_READ), 0);
  EXPECT_FALSE(find(memory.address(), 4 * kPage)->backing().writable) << "not all of it is";
  ASSERT_EQ(mprotect(memory.page(3), kPage, PROT_NONE), 0);
  EXPECT_FALSE(find(memory.address(), 4 * kPage));
}

TEST_F(Backing, DoesNotGoAcrossAJumpInTheFileOrToAnother) {
  const FileDescriptor one = memory_file(4);
  const FileDescriptor other = memory_file(4);
  const Mapped memory(one.get(), 4);
  const auto remap = [&](size_t page, int fd, size_t file_page) {
    void* at = mmap(memory.page(page), kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    static_cast<off_t>(file_page * kPage));
    ASSERT_EQ(at, memory.page(page));
  };
  remap(1, one.get(), 3);
  EXPECT_FALSE(find(memory.address(), 2 * kPage));
  EXPECT_TRUE(find(memory.address(1), kPage));
  remap(1, other.get(), 1);
  EXPECT_FALSE(find(memory.address(), 2 * kPage));
  remap(1, one.get(), 1);
  EXPECT_TRUE(find(memory.address(), 4 * kPage));
}

TEST_F(Backing, RefusesARangeThatWraps) { EXPECT_EQ(registry_.find(UINT64_MAX - 10, 100).error(), EOVERFLOW); }

TEST_F(Backing, CostsOneFdHoweverManyRangesOfAFileThereAre) {
  const FileDescriptor fd = memory_file(64);
  const Mapped memory(fd.get(), 64);
  const size_t before = open_fds();
  {
    std::vector<OwnedBacking> backings;
    for (size_t i = 0; i < 10'000; ++i) {
      const auto found = find(memory.address() + i, 16);
      ASSERT_TRUE(found);
      backings.push_back(*found);
    }
    EXPECT_EQ(open_fds(), before + 1);
    backings.erase(backings.begin(), backings.end() - 1);
    EXPECT_EQ(open_fds(), before + 1) << "the last one still has it";
  }
  EXPECT_EQ(open_fds(), before);
}

TEST_F(Backing, OutlivesTheProgramsOwnFd) {
  FileDescriptor fd = memory_file(2);
  const Mapped memory(fd.get(), 2);
  const auto first = find(memory.address(), kPage);
  fd.reset();
  const auto second = find(memory.address(1), kPage);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->backing().fd, second->backing().fd);
  expect_same_bytes(second->backing(), memory.page(1));
}

TEST_F(Backing, DoesNotHoldTheProgramsFileLock) {
  FileDescriptor fd = named_file(1);
  std::optional<OwnedBacking> found;
  {
    const Mapped memory(fd.get(), 1);
    ASSERT_EQ(flock(fd.get(), LOCK_EX), 0);
    found = find(memory.address(), kPage);
    ASSERT_TRUE(found);
    fd.reset();
  }
  const FileDescriptor again(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(again.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(Backing, OfManyFilesThatComeAndGoLeavesNothingOpen) {
  const size_t before = open_fds();
  for (int i = 0; i < 200; ++i) {
    const FileDescriptor fd = memory_file(1);
    const Mapped memory(fd.get(), 1);
    const auto found = find(memory.address(), kPage);
    ASSERT_TRUE(found);
    expect_same_bytes(found->backing(), memory.bytes());
  }
  EXPECT_EQ(open_fds(), before);
}

TEST_F(Backing, IsFoundByManyThreadsAtOnce) {
  const FileDescriptor one = memory_file(1);
  const FileDescriptor other = memory_file(1);
  const Mapped memories[] = {{one.get(), 1}, {other.get(), 1}};
  const ino_t inodes[] = {status_of(one.get()).st_ino, status_of(other.get()).st_ino};
  const size_t before = open_fds();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 200; ++i) {
        const size_t which = (t + i) % 2;
        const auto found = find(memories[which].address(), kPage);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->backing().inode, inodes[which]);
        EXPECT_EQ(status_of(found->backing().fd).st_ino, inodes[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(open_fds(), before);
}

TEST(FindBacking, AnswersFromTheProcesssOwnRegistry) {
  const FileDescriptor fd = memory_file(1);
  const Mapped memory(fd.get(), 1);
  const auto one = find_backing(memory.address(), 10);
  const auto other = find_backing(memory.address() + 10, 10);
  ASSERT_TRUE(one.ok() && one.value() && other.ok() && other.value());
  EXPECT_EQ(one.value()->backing().fd, other.value()->backing().fd);
}

}  // namespace
}  // namespace verbatim::local
