// Reading sysfs(5) for programs that look at it through libibverbs. They find what the machine has there; a device of
// ours has nothing in it.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/export.h"
#include "base/file_descriptor.h"

namespace {

// Where sysfs is mounted, without a slash at its end. A program with more rights than its user is not told otherwise.
std::string find_sysfs() {
  const char* given = getauxval(AT_SECURE) != 0 ? nullptr : std::getenv("SYSFS_PATH");
  std::string path = given != nullptr ? given : "/sys";
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// As many bytes as there are, at most `size`; -1 and errno where they cannot be read.
ssize_t read_fully(int fd, char* buffer, size_t size) {
  size_t length = 0;
  while (length < size) {
    const ssize_t count = read(fd, buffer + length, size - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    length += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(length);
}

}  // namespace

VERBATIM_EXPORT const char* ibv_get_sysfs_path(void) {
  static const std::string& path = *std::make_unique<const std::string>(find_sysfs()).release();
  return path.c_str();
}

// The file's content as a string without its last newline, and its length; -1 and errno if it cannot be read or does
// not fit `size` bytes with the terminating zero, for which the newline's place serves.
VERBATIM_EXPORT int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size) {
  const std::string path = std::string(dir) + '/' + file;
  const verbatim::FileDescriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) return -1;
  ssize_t length = read_fully(opened.get(), buf, size);
  if (length < 0) return -1;
  if (length > 0 && buf[length - 1] == '\n') --length;
  if (static_cast<size_t>(length) == size) {
    errno = EOVERFLOW;
    return -1;
  }
  buf[length] = '\0';
  return static_cast<int>(length);
}
