#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" {
const char* ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);
}

namespace {

class ReadSysfsFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "sysfs_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Reads a file of `content` into 8 bytes.
  int read(const std::string& content) {
    std::ofstream(folder_ + "/file") << content;
    std::memset(buffer_, 'X', sizeof buffer_);
    const int result = ibv_read_sysfs_file(folder_.c_str(), "file", buffer_, 8);
    EXPECT_EQ(buffer_[8], 'X') << "wrote behind the buffer";
    return result;
  }

  std::string folder_;
  char buffer_[9];
};

TEST_F(ReadSysfsFile, GivesTheContentWithoutItsLastNewline) {
  EXPECT_EQ(read("abc\n"), 3);
  EXPECT_STREQ(buffer_, "abc");
  EXPECT_EQ(read("abc"), 3);
  EXPECT_STREQ(buffer_, "abc");
  EXPECT_EQ(read("a\nb\n\n"), 4);
  EXPECT_STREQ(buffer_, "a\nb\n");
  EXPECT_EQ(read(""), 0);
  EXPECT_STREQ(buffer_, "");
}

TEST_F(ReadSysfsFile, WhatFitsExactlyIsReadAndOneByteMoreIsNot) {
  EXPECT_EQ(read("abcdefg"), 7);
  EXPECT_EQ(read("abcdefg\n"), 7);
  EXPECT_STREQ(buffer_, "abcdefg");
  errno = 0;
  EXPECT_EQ(read("abcdefgh"), -1);
  EXPECT_EQ(errno, EOVERFLOW);
  EXPECT_EQ(read("abcdefghij\n"), -1);
}

TEST_F(ReadSysfsFile, AFileThatIsNotThereIsAnError) {
  errno = 0;
  EXPECT_EQ(ibv_read_sysfs_file(folder_.c_str(), "none", buffer_, 8), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(SysfsPath, IsThatOfTheEnvironmentAtTheFirstCallWithoutSlashesAtItsEnd) {
  setenv("SYSFS_PATH", "/tmp/elsewhere//", 1);
  EXPECT_STREQ(ibv_get_sysfs_path(), "/tmp/elsewhere");
  setenv("SYSFS_PATH", "/other", 1);
  EXPECT_STREQ(ibv_get_sysfs_path(), "/tmp/elsewhere");
}

}  // namespace
