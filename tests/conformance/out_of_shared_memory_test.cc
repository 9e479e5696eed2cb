// Shared memory that there is none of: the library's own, when the program may write no file that long; and a
// program's, whose file system is full when somebody writes to it. An error, no signal, and things go on when there is
// some.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <vector>

#include "conformance/support/fresh_process.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

TEST(OutOfSharedMemory, ADeviceCannotBeOpenedUntilFilesMayBeLongEnough) {
  in_fresh_process([] {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit lower{1 << 20, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &lower), 0);
    EXPECT_EQ(open_device(), nullptr);
    EXPECT_EQ(errno, EFBIG) << strerror(errno);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_TRUE(ContextHandle(open_device()));
  });
}

// A mapped file of a file system that can be filled up. Its pages do not exist while it is full.
class FileOfItsOwnSystem {
 public:
  FileOfItsOwnSystem() {
    folder_ = testing::TempDir() + "full-XXXXXX";
    if (!mkdtemp(folder_.data()) || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", folder_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      rmdir(folder_.c_str());
      _exit(kCannotBeTriedHere);
    }
    file_ = open((folder_ + "/memory").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file_, kBytes), 0);
    memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~FileOfItsOwnSystem() {
    munmap(memory_, kBytes);
    close(file_);
    umount2(folder_.c_str(), MNT_DETACH);
    rmdir(folder_.c_str());
  }

  void fill_system() {
    EXPECT_EQ(madvise(memory_, kBytes, MADV_REMOVE), 0);
    const int rest = open(rest_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::vector<char> page(4096);
    while (write(rest, page.data(), page.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    close(rest);
  }
  void make_room() { EXPECT_EQ(unlink(rest_path().c_str()), 0); }

  void* data() const { return memory_; }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(memory_), kBytes}; }
  static constexpr uint32_t kBytes = 16384;

 private:
  std::string rest_path() const { return folder_ + "/rest"; }

  std::string folder_;
  int file_ = -1;
  void* memory_ = nullptr;
};

// As a NIC's driver, which pins it.
TEST(OutOfSharedMemory, AFileOfAFullSystemCannotBeRegistered) {
  in_fresh_process([] {
    FileOfItsOwnSystem file;
    const Side side;
    const auto attempt = [&] {
      errno = 0;
      return MrHandle(ibv_reg_mr(side.pd(), file.data(), FileOfItsOwnSystem::kBytes, kEveryAccess));
    };
    file.fill_system();
    EXPECT_FALSE(attempt());
    EXPECT_EQ(errno, EFAULT) << strerror(errno);
    file.make_room();
    EXPECT_TRUE(attempt());
  });
}

// Whose pages went after it was registered.
class FullFileSystem : public testing::TestWithParam<ibv_wr_opcode> {
 protected:
  // A READ fills its own end, a WRITE the other.
  static void expect_failure_until_there_is_room() {
    FileOfItsOwnSystem file;
    const Side side;
    const Memory ordinary(MemoryKind::anonymous, FileOfItsOwnSystem::kBytes);
    const MrHandle source = side.register_memory(ordinary);
    const MrHandle full(ibv_reg_mr(side.pd(), file.data(), FileOfItsOwnSystem::kBytes, kEveryAccess));
    ASSERT_TRUE(full);
    file.fill_system();
    fill(ordinary.bytes(), 1);
    const bool reads = GetParam() == IBV_WR_RDMA_READ;
    const ibv_mr& local = reads ? *full : *source;
    const ibv_mr& remote = reads ? *source : *full;
    const Request request{.opcode = GetParam(),
                          .sges = {{reinterpret_cast<uint64_t>(local.addr), FileOfItsOwnSystem::kBytes, local.lkey}},
                          .remote_address = reinterpret_cast<uint64_t>(remote.addr),
                          .rkey = remote.rkey};
    const auto status_of_one = [&]() -> std::optional<ibv_wc_status> {
      const QpHandle qp = side.create_queue_pair();
      EXPECT_EQ(connect(qp.get(), side.address_of(qp.get())), 0);
      EXPECT_EQ(post(qp.get(), {request}), kAllPosted);
      const std::optional<ibv_wc> completion = side.poll();
      return completion ? std::optional(completion->status) : std::nullopt;
    };
    EXPECT_EQ(status_of_one(), reads ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
    file.make_room();
    EXPECT_EQ(status_of_one(), IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(file.bytes(), 1), std::nullopt);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, FullFileSystem, testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ),
                         [](const auto& info) { return std::string(opcode_name(info.param)); });

TEST_P(FullFileSystem, FailsTheRequest) { in_fresh_process(expect_failure_until_there_is_room); }

}  // namespace
}  // namespace verbatim::conformance
