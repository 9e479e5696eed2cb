#include "conformance/support/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbatim::conformance {
namespace {

uint64_t whole_pages(uint64_t length) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (length + page - 1) / page * page;
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::abort();
}

int open_file(uint64_t size) {
  const int file = memfd_create("conformance", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) die("memfd");
  return file;
}

uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t word = (index + 1) * 0x9e3779b97f4a7c15 ^ seed * 0xd6e8feb86659fd93;
  word = (word ^ word >> 32) * 0xd6e8feb86659fd93;
  return word ^ word >> 29;
}

// Calls visit(chunk of at most 8 bytes, the pattern's bytes for it) from front to back until it answers false.
template <class Byte, class Visit>
void walk(std::span<Byte> bytes, uint64_t seed, uint64_t position, Visit&& visit) {
  while (!bytes.empty()) {
    const uint64_t word = pattern_word(seed, position / 8);
    uint8_t expected[8];
    std::memcpy(expected, &word, 8);
    const uint64_t skip = position % 8;
    const uint64_t length = std::min<uint64_t>(8 - skip, bytes.size());
    if (!visit(bytes.first(length), expected + skip)) return;
    bytes = bytes.subspan(length);
    position += length;
  }
}

}  // namespace

Memory::Memory(MemoryKind kind, uint64_t length) : size_(whole_pages(length)) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (kind == MemoryKind::file) {
    flags = MAP_SHARED;
    file_ = open_file(size_);
  }
  void* const mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (mapped == MAP_FAILED) die("mmap");
  data_ = static_cast<uint8_t*>(mapped);
}

Memory::~Memory() {
  if (mapped_) munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

void Memory::unmap() {
  if (munmap(data_, size_) != 0) die("munmap");
  mapped_ = false;
}

void Memory::truncate() {
  if (ftruncate(file_, 0) != 0) die("ftruncate");
}

void fill(std::span<uint8_t> bytes, uint64_t seed, uint64_t position) {
  walk(bytes, seed, position, [](std::span<uint8_t> chunk, const uint8_t* expected) {
    std::memcpy(chunk.data(), expected, chunk.size());
    return true;
  });
}

std::optional<uint64_t> first_difference(std::span<const uint8_t> bytes, uint64_t seed, uint64_t position) {
  std::optional<uint64_t> found;
  walk(bytes, seed, position, [&](std::span<const uint8_t> chunk, const uint8_t* expected) {
    if (std::memcmp(chunk.data(), expected, chunk.size()) == 0) return true;
    const auto where = std::mismatch(chunk.begin(), chunk.end(), expected).first;
    found = static_cast<uint64_t>(&*where - bytes.data());
    return false;
  });
  return found;
}

}  // namespace verbatim::conformance
