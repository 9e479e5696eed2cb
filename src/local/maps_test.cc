#include "local/maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "base/file_descriptor.h"

namespace verbatim::local {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class Pages {
 public:
  Pages(size_t count, int flags, int fd) : length_(count * kPage) {
    void* memory = mmap(nullptr, length_, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) abort();
    bytes_ = static_cast<char*>(memory);
  }
  Pages(const Pages&) = delete;
  ~Pages() { munmap(bytes_, length_); }
  char* page(size_t index) const { return bytes_ + index * kPage; }
  uint64_t address(size_t index) const { return reinterpret_cast<uint64_t>(page(index)); }

 private:
  char* bytes_;
  size_t length_;
};

bool has_query() {
  const Result<std::vector<Mapping>> found = find_mappings_by_query(reinterpret_cast<uint64_t>(&kPage), 1);
  return found.ok() || found.error() != ENOTTY;
}

using Find = Result<std::vector<Mapping>> (*)(uint64_t, uint64_t);

class FindMappings : public testing::TestWithParam<Find> {
 protected:
  void SetUp() override {
    if (GetParam() == find_mappings_by_query && !has_query()) GTEST_SKIP() << "Linux before 6.11 has no such query";
  }
  static std::vector<Mapping> find(uint64_t address, uint64_t length) {
    Result<std::vector<Mapping>> found = GetParam()(address, length);
    EXPECT_TRUE(found.ok()) << found.error();
    return found.ok() ? found.take() : std::vector<Mapping>();
  }
};

TEST_P(FindMappings, SaysAllOfASharedFileMapping) {
  const FileDescriptor fd(memfd_create("maps test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(8 * kPage)), 0);
  void* memory = mmap(nullptr, 3 * kPage, PROT_READ, MAP_SHARED, fd.get(), static_cast<off_t>(2 * kPage));
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(memory);
  struct stat status;
  fstat(fd.get(), &status);

  const std::vector<Mapping> found = find(start + 100, kPage);
  ASSERT_EQ(found.size(), 1u);
  const Mapping expected{.start = start,
                         .end = start + 3 * kPage,
                         .readable = true,
                         .shared = true,
                         .offset = 2 * kPage,
                         .device = status.st_dev,
                         .inode = status.st_ino,
                         .path = "/memfd:maps test (deleted)"};
  EXPECT_EQ(found[0], expected);
  munmap(memory, 3 * kPage);
}

TEST_P(FindMappings, FindsEveryMappingThatHasAByteInTheRangeAndNoOther) {
  const Pages pages(7, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (const size_t odd : {1, 3, 5}) ASSERT_EQ(mprotect(pages.page(odd), kPage, PROT_NONE), 0);
  ASSERT_EQ(munmap(pages.page(4), kPage), 0);

  const std::vector<Mapping> found = find(pages.address(2) - 1, 3 * kPage + 2);
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const size_t page = i < 3 ? i + 1 : 5;  // the hole is between
    EXPECT_EQ(found[i].start, pages.address(page));
    EXPECT_EQ(found[i].end, pages.address(page + 1));
    EXPECT_EQ(found[i].readable, page == 2);
    EXPECT_FALSE(found[i].shared);
    EXPECT_EQ(found[i].inode, 0u);
  }
  EXPECT_TRUE(find(pages.address(4), kPage).empty());
  EXPECT_TRUE(find(pages.address(4), 0).empty());
}

TEST_P(FindMappings, RefusesARangeThatWraps) { EXPECT_EQ(GetParam()(UINT64_MAX - 10, 100).error(), EOVERFLOW); }

TEST_P(FindMappings, SaysTheSameAsTheOtherWayOfTheWholeAddressSpace) {
  if (!has_query()) GTEST_SKIP() << "there is only one way here";
  const auto name = reinterpret_cast<uint64_t>(&kPage);
  const std::vector<Mapping> around = find(name, 1);
  ASSERT_EQ(around.size(), 1u);
  EXPECT_EQ(around, find_mappings_by_text(name, 1).value());
  EXPECT_EQ(around, find_mappings(name, 1).value());
}

TEST_P(FindMappings, GivesAStablePictureWhileTheAddressSpaceChanges) {
  const Pages pages(3, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  ASSERT_EQ(mprotect(pages.page(1), kPage, PROT_READ), 0);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      void* memory = mmap(nullptr, 16 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      mprotect(static_cast<char*>(memory) + 4 * kPage, kPage, PROT_NONE);
      munmap(memory, 16 * kPage);
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::vector<Mapping> found = find(pages.address(0), 3 * kPage);
    uint64_t covered = pages.address(0);
    for (const Mapping& mapping : found) {
      EXPECT_LE(mapping.start, covered);
      covered = mapping.end;
    }
    EXPECT_GE(covered, pages.address(3));
  }
  stop = true;
  other.join();
}

TEST_P(FindMappings, LivesWithTheLongestPath) {
  std::string folder = testing::TempDir() + "verbatim-maps-" + std::to_string(getpid());
  std::vector<std::string> made;
  const std::string part(200, 'd');
  for (int i = 0; i < 18; ++i, folder += "/" + part) {
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0) << errno;
    made.push_back(folder);
  }
  const std::string path = made.back() + "/file with spaces";
  {
    const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(kPage)), 0);
    const Pages page(1, MAP_SHARED, fd.get());
    const std::vector<Mapping> found = find(page.address(0), 1);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].path, path);
  }
  unlink(path.c_str());
  for (; !made.empty(); made.pop_back()) rmdir(made.back().c_str());
}

INSTANTIATE_TEST_SUITE_P(, FindMappings, testing::Values(find_mappings_by_query, find_mappings_by_text),
                         [](const auto& info) { return info.param == find_mappings_by_query ? "ByQuery" : "ByText"; });

TEST(FindMappingsByQuery, IsThereFromLinux611On) {
  utsname name;
  uname(&name);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(std::sscanf(name.release, "%d.%d", &major, &minor), 2);
  if (major < 6 || (major == 6 && minor < 11)) GTEST_SKIP() << name.release;
  EXPECT_TRUE(has_query());
}

TEST(ParseMapping, TakesALineWithAPath) {
  const auto mapping = parse_mapping("7f0a12345000-7f0a12346000 rw-s 00003000 fd:1a 9876543210       /a b/c (deleted)");
  ASSERT_TRUE(mapping);
  const Mapping expected{.start = 0x7f0a12345000,
                         .end = 0x7f0a12346000,
                         .readable = true,
                         .writable = true,
                         .shared = true,
                         .offset = 0x3000,
                         .device = makedev(0xfd, 0x1a),
                         .inode = 9876543210,
                         .path = "/a b/c (deleted)"};
  EXPECT_EQ(*mapping, expected);
}

TEST(ParseMapping, TakesALineWithoutAPath) {
  for (const char* line : {"1000-2000 r-xp 00000000 00:00 0", "1000-2000 r-xp 00000000 00:00 0 "}) {
    const auto mapping = parse_mapping(line);
    ASSERT_TRUE(mapping) << line;
    EXPECT_TRUE(mapping->executable && !mapping->writable && !mapping->shared);
    EXPECT_EQ(mapping->path, "");
  }
}

TEST(ParseMapping, RefusesWhatIsNoLine) {
  for (const char* line : {"", "1000", "1000-2000", "1000-2000 rwx", "1000-2000 rwxq 0 0:0 0", "2000-1000 r--p 0 0:0 0",
                           "x-y r--p 0 0:0 0", "1000-2000 r--p zz 0:0 0", "1000-2000 r--p 0 00 0",
                           "1000-2000 r--p 0 0:0 inode", "1000-2000 r--p 0 0:0 "}) {
    EXPECT_FALSE(parse_mapping(line)) << line;
  }
}

}  // namespace
}  // namespace verbatim::local
