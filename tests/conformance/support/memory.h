// Memory to be registered, and seeded patterns to recognise every byte of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace verbatim::conformance {

// anonymous: private to the process, as malloc gives it. file: a memfd mapped MAP_SHARED, which a peer can map too.
enum class MemoryKind : uint32_t { anonymous, file };

// Zeroed pages, unmapped at the end. Its file, if it has one, stays open: that is how the library finds it.
class Memory {
 public:
  // `length` in bytes, not 0; rounded up to pages. Ends the program when there is no memory.
  Memory(MemoryKind kind, uint64_t length);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // Takes the pages away, as a program may although they are registered: the address range becomes empty, or its file.
  void unmap();
  void truncate();

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::span<uint8_t> bytes() const { return {data_, size_}; }
  std::span<uint8_t> bytes(uint64_t offset, uint64_t length) const { return bytes().subspan(offset, length); }
  uint64_t address(uint64_t offset = 0) const { return reinterpret_cast<uint64_t>(data_) + offset; }

 private:
  const uint64_t size_;
  bool mapped_ = true;
  int file_ = -1;
  uint8_t* data_;
};

// Writes the pattern of `seed` from its byte `position` on.
void fill(std::span<uint8_t> bytes, uint64_t seed, uint64_t position = 0);

// Where `bytes` first differ from that pattern; nothing if they are it.
std::optional<uint64_t> first_difference(std::span<const uint8_t> bytes, uint64_t seed, uint64_t position = 0);

}  // namespace verbatim::conformance
