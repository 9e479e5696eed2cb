// Memory for tests: private pages, or a memfd mapped shared, which peers can map too. Test code only.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/file_descriptor.h"

namespace verbatim::testing_support {

// Whole pages, filled with zeros, given back at the end.
class Pages {
 public:
  enum class Kind { private_memory, shared_file };

  Pages(size_t size, Kind kind) : size_((size + kPage - 1) / kPage * kPage) {
    if (kind == Kind::shared_file) {
      file_ = FileDescriptor(memfd_create("test-pages", MFD_CLOEXEC));
      EXPECT_EQ(ftruncate(file_.get(), static_cast<off_t>(size_)), 0);
    }
    const int flags = file_.valid() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, file_.get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    data_ = static_cast<uint8_t*>(memory);
  }
  ~Pages() { munmap(data_, size_); }
  Pages(const Pages&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  std::span<uint8_t> bytes() const { return {data_, size_}; }

  // Takes the memory away under whoever uses it: the file is cut short, or the pages become a hole nobody may touch.
  void vanish() {
    if (file_.valid())
      EXPECT_EQ(ftruncate(file_.get(), 0), 0);
    else
      EXPECT_EQ(mprotect(data_, size_, PROT_NONE), 0);
  }
  void forbid_writing() { EXPECT_EQ(mprotect(data_, size_, PROT_READ), 0); }

 private:
  static constexpr size_t kPage = 4096;
  size_t size_;
  FileDescriptor file_;
  uint8_t* data_;
};

}  // namespace verbatim::testing_support
