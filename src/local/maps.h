// What our own address space is made of, as the kernel says: which mappings cover a range, and of which files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbatim::local {

// One mapping, that is, one line of /proc/PID/maps (proc_pid_maps(5)).
struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;  // the first address after it
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  uint64_t offset = 0;  // in the file, in bytes
  // The file, in the kernel's own terms. On some file systems (btrfs, overlayfs) stat() gives another device for it.
  dev_t device = 0;
  ino_t inode = 0;   // 0 when there is no file
  std::string path;  // as shown: it may end in " (deleted)", be in another mount namespace, or be no path at all

  bool operator==(const Mapping&) const = default;
};

// The mappings that have a byte in [address, address + length), lowest first. There may be gaps between them, and none
// at all is a success. They are one picture: read again until two readings agree, EAGAIN if they never do. Any thread.
Result<std::vector<Mapping>> find_mappings(uint64_t address, uint64_t length);

// The two ways find_mappings() goes. The query is an ioctl of Linux 6.11, ENOTTY before; its cost does not depend on
// how many mappings there are. The text is the way of older kernels.
Result<std::vector<Mapping>> find_mappings_by_query(uint64_t address, uint64_t length);
Result<std::vector<Mapping>> find_mappings_by_text(uint64_t address, uint64_t length);

// One line of /proc/PID/maps, without its newline; nothing if it is not one.
std::optional<Mapping> parse_mapping(std::string_view line);

}  // namespace verbatim::local
