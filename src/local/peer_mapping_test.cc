// Mapping the file of a second process, which may lie about it, close it, truncate it, or be gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "base/guarded_copy.h"
#include "local/backing.h"
#include "local/process_memory.h"
#include "local/test_child.h"

namespace verbatim::local {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kPages = 4;

enum Order : uint64_t { truncate_file, seal_file, check_byte, finish };

// The other process: four pages of a memfd, registered, its own fd closed; only the registry's is left.
int serve(TestChild::Talk& talk) {
  FileDescriptor fd(memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(fd.get(), static_cast<off_t>(kPages * kPage)) != 0) return 1;
  void* memory = mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return 2;
  auto* bytes = static_cast<unsigned char*>(memory);
  bytes[kPage + 5] = 55;
  const auto found = find_backing(reinterpret_cast<uint64_t>(memory), kPages * kPage);
  if (!found.ok() || !found.value()) return 3;
  fd.reset();
  const FileBacking backing = found.value()->backing();
  talk.say(static_cast<uint64_t>(backing.fd));
  talk.say(backing.device);
  talk.say(backing.inode);
  for (;;) {
    switch (static_cast<Order>(talk.hear())) {
      case truncate_file:
        talk.say(ftruncate(backing.fd, static_cast<off_t>(kPage)) == 0);
        break;
      case seal_file:
        talk.say(fcntl(backing.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
        break;
      case check_byte:
        talk.say(bytes[talk.hear()]);
        break;
      case finish:
        return 0;
    }
  }
}

class PeerFile : public testing::Test {
 protected:
  PeerFile() : peer_(serve) {
    fd_ = static_cast<int>(peer_.hear());
    device_ = peer_.hear();
    inode_ = peer_.hear();
  }

  Result<PeerMapping> open(uint64_t offset, uint64_t length, bool writable = true) {
    return PeerMapping::open(peer_.pid(), fd_, device_, inode_, offset, length, writable);
  }
  uint64_t ask(Order order) {
    peer_.say(order);
    return peer_.hear();
  }
  uint64_t byte_there(uint64_t index) {
    peer_.say(check_byte);
    peer_.say(index);
    return peer_.hear();
  }

  TestChild peer_;
  int fd_;
  dev_t device_;
  ino_t inode_;
  CopyFault fault_;
};

TEST_F(PeerFile, IsMappedByTheRegistrysFdAfterTheProgramClosedItsOwn) {
  Result<PeerMapping> mapping = open(kPage + 5, 100);
  ASSERT_TRUE(mapping.ok()) << mapping.error();
  EXPECT_EQ(mapping.value().length(), 100u);
  EXPECT_EQ(*mapping.value().data(), 55);
  const unsigned char message = 66;
  EXPECT_TRUE(guarded_copy(mapping.value().data() + 1, &message, 1, &fault_));
  EXPECT_EQ(byte_there(kPage + 6), 66u);
}

// The first operation of a post call on a region maps it, and posting is no cancellation point.
TEST_F(PeerFile, IsMappedByAThreadThatIsBeingCancelled) {
  bool mapped = false;
  std::thread cancelled([&] {
    pthread_cancel(pthread_self());
    mapped = open(0, kPage).ok();
    pthread_testcancel();
    ADD_FAILURE() << "nobody cancelled it";
  });
  cancelled.join();
  EXPECT_TRUE(mapped);
}

TEST_F(PeerFile, StaysMappedAfterThePeersDeath) {
  Result<PeerMapping> mapping = open(kPage + 5, 1);
  ASSERT_TRUE(mapping.ok());
  kill(peer_.pid(), SIGKILL);
  peer_.join();
  unsigned char byte = 0;
  EXPECT_TRUE(guarded_copy(&byte, mapping.value().data(), 1, &fault_));
  EXPECT_EQ(byte, 55);
}

TEST_F(PeerFile, TruncatedAfterMappingIsAFaultOfTheCopyAndNotASignal) {
  Result<PeerMapping> mapping = open(0, kPages * kPage);
  ASSERT_TRUE(mapping.ok());
  ASSERT_EQ(ask(truncate_file), 1u);
  unsigned char byte = 7;
  uint8_t* gone = mapping.value().data() + kPage + 9;
  EXPECT_FALSE(guarded_copy(gone, &byte, 1, &fault_));
  EXPECT_EQ(fault_.address, gone);
  EXPECT_FALSE(guarded_copy(&byte, gone, 1, &fault_));
  EXPECT_TRUE(guarded_copy(mapping.value().data(), &byte, 1, &fault_));
  EXPECT_EQ(byte_there(0), 7u);
}

TEST_F(PeerFile, TruncatedBeforeMappingIsRefused) {
  ASSERT_EQ(ask(truncate_file), 1u);
  EXPECT_EQ(open(0, kPage + 1).error(), ENXIO);
  EXPECT_TRUE(open(0, kPage).ok());
}

TEST_F(PeerFile, WithALieAboutItIsRefused) {
  const pid_t pid = peer_.pid();
  EXPECT_EQ(PeerMapping::open(pid, fd_, device_, inode_ + 1, 0, kPage, true).error(), ESTALE);
  EXPECT_EQ(PeerMapping::open(pid, fd_, device_ + 1, inode_, 0, kPage, true).error(), ESTALE);
  EXPECT_EQ(PeerMapping::open(pid, 0, device_, inode_, 0, kPage, true).error(), ESTALE);
  EXPECT_EQ(PeerMapping::open(pid, 9999, device_, inode_, 0, kPage, true).error(), EBADF);
  EXPECT_EQ(PeerMapping::open(pid, -1, device_, inode_, 0, kPage, true).error(), EBADF);
  EXPECT_EQ(open(0, 0).error(), EINVAL);
  EXPECT_EQ(open(0, kPages * kPage + 1).error(), ENXIO);
  EXPECT_EQ(open(kPages * kPage, 1).error(), ENXIO);
  EXPECT_EQ(open(UINT64_MAX, 2).error(), EOVERFLOW);
  EXPECT_EQ(open(uint64_t{1} << 62, uint64_t{1} << 62).error(), EOVERFLOW);
}

TEST_F(PeerFile, ThatIsNoFileIsRefusedWithoutOpeningIt) {
  struct stat status;
  const std::string pipe = "/proc/" + std::to_string(peer_.pid()) + "/fd/";
  for (int fd = 3; fd < 64; ++fd) {
    if (stat((pipe + std::to_string(fd)).c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) continue;
    EXPECT_EQ(PeerMapping::open(peer_.pid(), fd, status.st_dev, status.st_ino, 0, kPage, true).error(), ENODEV);
    return;
  }
  FAIL() << "the peer has pipes to this process";
}

TEST_F(PeerFile, SealedAgainstWritersCanBeReadOnly) {
  ASSERT_EQ(ask(seal_file), 1u);
  EXPECT_EQ(open(0, kPage, true).error(), EPERM);
  Result<PeerMapping> mapping = open(kPage + 5, 1, false);
  ASSERT_TRUE(mapping.ok());
  unsigned char byte = 0;
  EXPECT_TRUE(guarded_copy(&byte, mapping.value().data(), 1, &fault_));
  EXPECT_EQ(byte, 55);
  EXPECT_FALSE(guarded_copy(mapping.value().data(), &byte, 1, &fault_));
}

TEST_F(PeerFile, OfADeadProcessIsRefused) {
  kill(peer_.pid(), SIGKILL);
  const pid_t pid = peer_.pid();
  peer_.join();
  EXPECT_EQ(PeerMapping::open(pid, fd_, device_, inode_, 0, kPage, true).error(), ESRCH);
}

TEST_F(PeerFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0) {
    EXPECT_EQ(PeerMapping::open(1, 0, device_, inode_, 0, kPage, true).error(), EACCES);
    return;
  }
  TestChild nobody([this](TestChild::Talk&) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
    return open(0, kPage).error() == EACCES ? 0 : 2;
  });
  EXPECT_EQ(nobody.join(), 0);
}

TEST_F(PeerFile, IsUnmappedWithItsOwnerAndMovesWithIt) {
  unsigned char byte;
  const uint8_t* first = nullptr;
  const uint8_t* second = nullptr;
  {
    Result<PeerMapping> one = open(kPage + 5, 1);
    Result<PeerMapping> two = open(kPage + 5, 2);
    ASSERT_TRUE(one.ok() && two.ok());
    first = one.value().data();
    second = two.value().data();
    PeerMapping moved(one.take());
    EXPECT_EQ(moved.data(), first);
    EXPECT_TRUE(guarded_copy(&byte, first, 1, &fault_));
    moved = two.take();
    EXPECT_EQ(moved.data(), second);
    EXPECT_EQ(moved.length(), 2u);
    EXPECT_FALSE(guarded_copy(&byte, first, 1, &fault_)) << "nobody owns it any more";
    EXPECT_TRUE(guarded_copy(&byte, second, 1, &fault_));
  }
  EXPECT_FALSE(guarded_copy(&byte, second, 1, &fault_));
}

TEST(PeerMappingOfHugePages, MapsThemWhole) {
  const FileDescriptor fd(memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
  struct statfs status {};
  fstatfs(fd.get(), &status);
  const auto huge = static_cast<size_t>(status.f_bsize);
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(2 * huge)) != 0) GTEST_SKIP() << "no huge pages here";
  void* memory = mmap(nullptr, 2 * huge, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no huge pages are reserved here (vm.nr_hugepages)";
  auto* bytes = static_cast<unsigned char*>(memory);
  bytes[huge + kPage + 3] = 33;
  const auto found = find_backing(reinterpret_cast<uint64_t>(memory) + huge + kPage + 3, 100);
  ASSERT_TRUE(found.ok() && found.value());
  const FileBacking backing = found.value()->backing();
  TestChild other([&](TestChild::Talk&) {
    const Result<PeerMapping> mapping =
        PeerMapping::open(getppid(), backing.fd, backing.device, backing.inode, backing.offset, 100, true);
    return mapping.ok() && *mapping.value().data() == 33 ? 0 : 1;
  });
  EXPECT_EQ(other.join(), 0);
  munmap(memory, 2 * huge);
}

// The byte found there, or minus the errno value.
int byte_of_a_process_whose_first_thread_has_ended() {
  TestChild other([](TestChild::Talk& talk) {
    std::thread([&talk] {
      // /proc shows the first thread's files until it has ended.
      for (std::string line; line.find(") Z") == std::string::npos;) {
        std::ifstream stat("/proc/self/stat");
        std::getline(stat, line);
      }
      _exit(serve(talk));
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
    return 1;
  });
  const auto fd = static_cast<int>(other.hear());
  const dev_t device = other.hear();
  const ino_t inode = other.hear();
  const Result<PeerMapping> mapping = PeerMapping::open(other.pid(), fd, device, inode, kPage + 5, 1, true);
  return mapping.ok() ? *mapping.value().data() : -mapping.error();
}

TEST(PeerMappingOfAProcess, WhoseFirstThreadHasEndedIsOpenedThroughAnother) {
  EXPECT_EQ(byte_of_a_process_whose_first_thread_has_ended(), 55);
}

TEST(PeerMappingOfAProcess, WhoseFirstThreadHasEndedIsOpenedByAnOrdinaryUserToo) {
  if (geteuid() != 0) GTEST_SKIP() << "the test above is this one";
  TestChild nobody([](TestChild::Talk&) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
    // As for a program that this user started.
    if (prctl(PR_SET_DUMPABLE, 1) != 0) return 2;
    return byte_of_a_process_whose_first_thread_has_ended();
  });
  EXPECT_EQ(nobody.join(), 55);
}

}  // namespace
}  // namespace verbatim::local
