#include "local/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/file_descriptor.h"

namespace verbatim::local {
namespace {

// Not /proc/self, which shows nothing once the first thread of the process has ended.
constexpr const char* kMapsPath = "/proc/thread-self/maps";
constexpr int kReadings = 16;

// struct procmap_query and its numbers, from the kernel's user interface (linux/fs.h of Linux 6.11), for building with
// older headers.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_address;
  uint64_t start;
  uint64_t end;
  uint64_t flags;
  uint64_t page_size;
  uint64_t offset;
  uint64_t inode;
  uint32_t device_major;
  uint32_t device_minor;
  uint32_t name_size;
  uint32_t build_id_size;
  uint64_t name_address;
  uint64_t build_id_address;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kReadable = 1;
constexpr uint64_t kWritable = 2;
constexpr uint64_t kExecutable = 4;
constexpr uint64_t kShared = 8;
constexpr uint64_t kCoveringOrNext = 0x10;

using Mappings = std::vector<Mapping>;
using Reading = Result<Mappings> (*)(int maps, uint64_t first, uint64_t last);

// The mapping at `address` or the next one above; nothing above the last.
Result<std::optional<Mapping>> query(int maps, uint64_t address) {
  std::array<char, PATH_MAX> name{};
  ProcmapQuery query{.size = sizeof(ProcmapQuery), .query_flags = kCoveringOrNext, .query_address = address};
  query.name_size = name.size();
  query.name_address = reinterpret_cast<uint64_t>(name.data());
  int result = ioctl(maps, kProcmapQuery, &query);
  if (result != 0 && errno == ENAMETOOLONG) {  // the name is what we can do without
    query.name_size = 0;
    query.name_address = 0;
    name[0] = '\0';
    result = ioctl(maps, kProcmapQuery, &query);
  }
  if (result != 0 && errno == ENOENT) return std::optional<Mapping>();
  if (result != 0) return Status{errno};
  return std::optional(Mapping{.start = query.start,
                               .end = query.end,
                               .readable = (query.flags & kReadable) != 0,
                               .writable = (query.flags & kWritable) != 0,
                               .executable = (query.flags & kExecutable) != 0,
                               .shared = (query.flags & kShared) != 0,
                               .offset = query.offset,
                               .device = makedev(query.device_major, query.device_minor),
                               .inode = query.inode,
                               .path = query.name_size > 0 ? name.data() : ""});
}

Result<Mappings> read_by_query(int maps, uint64_t first, uint64_t last) {
  Mappings found;
  for (uint64_t address = first; address <= last;) {
    Result<std::optional<Mapping>> next = query(maps, address);
    if (!next.ok()) return next.status();
    if (!next.value() || next.value()->start > last) break;
    address = next.value()->end;
    found.push_back(*next.take());
  }
  return found;
}

Result<std::string> read_all(int file) {
  std::string text;
  std::array<char, 16 * 1024> buffer;
  for (off_t at = 0;;) {
    const ssize_t length = pread(file, buffer.data(), buffer.size(), at);
    if (length == 0) return text;
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return Status{errno};
    text.append(buffer.data(), static_cast<size_t>(length));
    at += length;
  }
}

Result<Mappings> read_by_text(int maps, uint64_t first, uint64_t last) {
  Result<std::string> text = read_all(maps);
  if (!text.ok()) return text.status();
  Mappings found;
  for (std::string_view rest = text.value(); !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::optional<Mapping> mapping = parse_mapping(rest.substr(0, end));
    if (!mapping) return Status{EPROTO};
    if (mapping->start <= last && mapping->end > first) found.push_back(*mapping);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return found;
}

// The kernel gives each row whole, but between two rows the address space may change.
Result<Mappings> read_until_stable(Reading reading, uint64_t address, uint64_t length) {
  if (length == 0) return Mappings();
  const uint64_t last = address + (length - 1);
  if (last < address) return Status{EOVERFLOW};
  const FileDescriptor maps(open(kMapsPath, O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return Status{errno};
  Result<Mappings> before = reading(maps.get(), address, last);
  for (int i = 0; i < kReadings; ++i) {
    if (!before.ok()) return before;
    Result<Mappings> now = reading(maps.get(), address, last);
    if (!now.ok() || now.value() == before.value()) return now;
    before = now.take();
  }
  return Status{EAGAIN};
}

// Takes fields off the front of a line.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  template <class Number>
  bool number(Number* value, int base, char after) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value, base);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return rest_.empty() ? after == ' ' : take(after);  // a line without a path may end after its inode
  }

  bool flag(char set, char unset, bool* value) {
    *value = !rest_.empty() && rest_.front() == set;
    return take(*value ? set : unset);
  }

  bool take(char expected) {
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string rest() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return std::string(rest_);
  }

 private:
  std::string_view rest_;
};

}  // namespace

Result<Mappings> find_mappings(uint64_t address, uint64_t length) {
  Result<Mappings> found = find_mappings_by_query(address, length);
  if (!found.ok() && found.error() == ENOTTY) return find_mappings_by_text(address, length);
  return found;
}

Result<Mappings> find_mappings_by_query(uint64_t address, uint64_t length) {
  return read_until_stable(read_by_query, address, length);
}

Result<Mappings> find_mappings_by_text(uint64_t address, uint64_t length) {
  return read_until_stable(read_by_text, address, length);
}

std::optional<Mapping> parse_mapping(std::string_view line) {
  Fields fields(line);
  Mapping mapping;
  unsigned major = 0;
  unsigned minor = 0;
  const bool whole = fields.number(&mapping.start, 16, '-') && fields.number(&mapping.end, 16, ' ') &&
                     fields.flag('r', '-', &mapping.readable) && fields.flag('w', '-', &mapping.writable) &&
                     fields.flag('x', '-', &mapping.executable) && fields.flag('s', 'p', &mapping.shared) &&
                     fields.take(' ') && fields.number(&mapping.offset, 16, ' ') && fields.number(&major, 16, ':') &&
                     fields.number(&minor, 16, ' ') && fields.number(&mapping.inode, 10, ' ');
  if (!whole || mapping.end <= mapping.start) return std::nullopt;
  mapping.device = makedev(major, minor);
  mapping.path = fields.rest();
  return mapping;
}

}  // namespace verbatim::local
