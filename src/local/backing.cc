#include "local/backing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/guarded_copy.h"
#include "base/no_cancellation.h"
#include "local/maps.h"
#include "local/process_memory.h"

namespace verbatim::local {

// One file, open for all who use it.
class SharedFile {
 public:
  SharedFile(FileDescriptor fd, const struct stat& status)
      : fd_(std::move(fd)), device_(status.st_dev), inode_(status.st_ino) {}
  int fd() const { return fd_.get(); }
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }

 private:
  FileDescriptor fd_;
  dev_t device_;
  ino_t inode_;
};

namespace {

// Not /proc/self, which shows nothing once the first thread of the process has ended.
constexpr const char* kOwnFds = "/proc/thread-self/fd";

// Opens a regular file that we hold in some other way (O_PATH, another mode) anew, with the access wanted.
FileDescriptor reopen(int fd, bool writable) {
  const std::string path = fmt::format("{}/{}", kOwnFds, fd);
  const int access = writable ? O_RDWR : O_RDONLY;
  return FileDescriptor(open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

// A stretch of a file, as the mappings of a range of memory say.
struct MappedFile {
  dev_t device;
  ino_t inode;
  uint64_t offset;
  bool writable;
  std::string path;
};

bool continues(const Mapping& before, const Mapping& next) {
  return next.start == before.end && next.device == before.device && next.inode == before.inode &&
         next.offset == before.offset + (before.end - before.start);
}

std::optional<MappedFile> one_file(const std::vector<Mapping>& mappings, uint64_t address, uint64_t length) {
  if (mappings.empty()) return std::nullopt;
  const Mapping& first = mappings.front();
  const bool covered = first.start <= address && mappings.back().end - address >= length;
  const bool shared = std::all_of(mappings.begin(), mappings.end(),
                                  [](const Mapping& m) { return m.shared && m.readable && m.inode != 0; });
  const auto break_in_file = std::adjacent_find(mappings.begin(), mappings.end(),
                                                [](const Mapping& a, const Mapping& b) { return !continues(a, b); });
  if (!covered || !shared || break_in_file != mappings.end()) return std::nullopt;
  const bool writable = std::all_of(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.writable; });
  return MappedFile{first.device, first.inode, first.offset + (address - first.start), writable, first.path};
}

// What the kernel calls this file's device in a list of mappings, where fstat() calls it something else: seen from a
// mapping of it.
std::optional<dev_t> device_when_mapped(int fd) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  const Result<std::vector<Mapping>> mappings = find_mappings(reinterpret_cast<uint64_t>(memory), page);
  munmap(memory, page);
  if (!mappings.ok() || mappings.value().size() != 1) return std::nullopt;
  return mappings.value().front().device;
}

bool is_file(int fd, const MappedFile& file, struct stat* status) {
  if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode) || status->st_ino != file.inode) return false;
  return status->st_dev == file.device || device_when_mapped(fd) == file.device;
}

bool gives_access(int fd, bool writable) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH)) return false;
  return writable ? (flags & O_ACCMODE) == O_RDWR : (flags & O_ACCMODE) != O_WRONLY;
}

// Preferably a new open file: a duplicate would keep the program's flock() alive after it has given up its own.
FileDescriptor own_fd(int fd, const MappedFile& file) {
  struct stat status;
  FileDescriptor reopened = reopen(fd, file.writable);
  if (reopened.valid() && is_file(reopened.get(), file, &status)) return reopened;
  if (!gives_access(fd, file.writable)) return {};
  FileDescriptor duplicate(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (duplicate.valid() && is_file(duplicate.get(), file, &status)) return duplicate;
  return {};
}

FileDescriptor open_from_own_fds(const MappedFile& file) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(kOwnFds), closedir);
  if (!directory) return {};
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    struct stat status;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (error != std::errc() || !is_file(fd, file, &status)) continue;
    if (FileDescriptor own = own_fd(fd, file); own.valid()) return own;
  }
  return {};
}

// First without opening it, since at the path there may by now be a pipe or a device.
FileDescriptor open_from_path(const MappedFile& file) {
  if (!file.path.starts_with('/')) return {};
  struct stat status;
  const FileDescriptor path(open(file.path.c_str(), O_PATH | O_CLOEXEC));
  if (!path.valid() || fstat(path.get(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode) || status.st_ino != file.inode) return {};
  FileDescriptor own = reopen(path.get(), file.writable);
  return own.valid() && is_file(own.get(), file, &status) ? std::move(own) : FileDescriptor();
}

std::shared_ptr<const SharedFile> open_file(const MappedFile& file) {
  FileDescriptor fd = open_from_own_fds(file);
  if (!fd.valid()) fd = open_from_path(file);
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return nullptr;
  return std::make_shared<const SharedFile>(std::move(fd), status);
}

// The other side: a peer's fd, as a path that names it and does not open it.
Result<FileDescriptor> name_peer_fd(pid_t pid, int fd_in_peer) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::string file = "/fd/" + std::to_string(fd_in_peer);
  FileDescriptor path(open((process + file).c_str(), O_PATH | O_CLOEXEC));
  if (path.valid()) return path;
  const int error = errno;
  // The process's first thread may have ended, and shows no files any more (to an ordinary user not even the folder, as
  // it is root's then); the others do.
  if (error != ENOENT && error != EACCES) return Status{error};
  const std::vector<pid_t> threads = threads_of(pid);
  for (const pid_t thread : threads) {
    path = FileDescriptor(open((process + "/task/" + std::to_string(thread) + file).c_str(), O_PATH | O_CLOEXEC));
    if (path.valid()) return path;
  }
  if (threads.empty()) return Status{ESRCH};
  return Status{error == EACCES ? EACCES : EBADF};
}

Status check_identity(int fd, dev_t device, ino_t inode) {
  struct stat status;
  if (fstat(fd, &status) != 0) return {errno};
  if (status.st_dev != device || status.st_ino != inode) return {ESTALE};
  return S_ISREG(status.st_mode) ? Status::success() : Status{ENODEV};
}

Status check_extent(int fd, uint64_t offset, uint64_t length) {
  if (length == 0) return {EINVAL};
  uint64_t end;
  if (__builtin_add_overflow(offset, length, &end) || end > uint64_t{INT64_MAX}) return {EOVERFLOW};
  struct stat status;
  if (fstat(fd, &status) != 0) return {errno};
  return static_cast<uint64_t>(status.st_size) >= end ? Status::success() : Status{ENXIO};
}

Status check_seals(int fd, bool writable) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !writable) return Status::success();  // most file systems have no seals
  return seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) ? Status{EPERM} : Status::success();
}

Result<FileDescriptor> open_peer_file(pid_t pid, int fd_in_peer, dev_t device, ino_t inode, bool writable) {
  const Result<FileDescriptor> path = name_peer_fd(pid, fd_in_peer);
  if (!path.ok()) return path.status();
  if (const Status status = check_identity(path.value().get(), device, inode); !status.ok()) return status;
  FileDescriptor file = reopen(path.value().get(), writable);
  if (!file.valid()) return Status{errno};
  return file;
}

// Of a file's offsets in mmap(): huge pages must be mapped whole.
uint64_t mapping_unit(int fd) {
  struct statfs status;
  if (fstatfs(fd, &status) == 0 && static_cast<uint64_t>(status.f_type) == HUGETLBFS_MAGIC) {
    return static_cast<uint64_t>(status.f_bsize);
  }
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::optional<OwnedBacking>> BackingRegistry::find(uint64_t address, uint64_t length) {
  const NoCancellation guard;
  const Result<std::vector<Mapping>> mappings = find_mappings(address, length);
  if (!mappings.ok()) return mappings.status();
  const std::optional<MappedFile> range = one_file(mappings.value(), address, length);
  if (!range) return std::optional<OwnedBacking>();

  const Key key{range->device, range->inode, range->writable};
  std::lock_guard lock(mutex_);
  std::shared_ptr<const SharedFile> file = known(key);
  if (!file) {
    file = open_file(*range);
    if (!file) return std::optional<OwnedBacking>();
    remember(key, file);
  }
  const FileBacking backing{file->fd(), file->device(), file->inode(), range->offset, range->writable};
  return std::optional(OwnedBacking(std::move(file), backing));
}

// An entry that nobody holds any more has closed its fd, so its inode number may mean another file: it is never used.
std::shared_ptr<const SharedFile> BackingRegistry::known(const Key& key) const {
  const auto found = files_.find(key);
  return found != files_.end() ? found->second.lock() : nullptr;
}

void BackingRegistry::remember(const Key& key, const std::shared_ptr<const SharedFile>& file) {
  files_[key] = file;
  if (files_.size() < prune_at_) return;
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  prune_at_ = 16 + 2 * files_.size();
}

Result<std::optional<OwnedBacking>> find_backing(uint64_t address, uint64_t length) {
  static BackingRegistry& registry = *new BackingRegistry;  // never destroyed: a program may register while it exits
  return registry.find(address, length);
}

Result<PeerMapping> PeerMapping::open(pid_t pid, int fd_in_peer, dev_t device, ino_t inode, uint64_t offset,
                                      uint64_t length, bool writable) {
  const NoCancellation guard;
  if (const Status status = install_guard(); !status.ok()) return status;
  const Result<FileDescriptor> file = open_peer_file(pid, fd_in_peer, device, inode, writable);
  if (!file.ok()) return file.status();
  const int fd = file.value().get();
  if (const Status status = check_identity(fd, device, inode); !status.ok()) return status;
  if (const Status status = check_extent(fd, offset, length); !status.ok()) return status;
  if (const Status status = check_seals(fd, writable); !status.ok()) return status;

  const uint64_t unit = mapping_unit(fd);
  const uint64_t into_unit = offset % unit;
  const uint64_t pages_length = (into_unit + length + unit - 1) / unit * unit;
  void* pages = mmap(nullptr, pages_length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
                     static_cast<off_t>(offset - into_unit));
  if (pages == MAP_FAILED) return Status{errno};
  PeerMapping mapping;
  mapping.pages_ = pages;
  mapping.pages_length_ = pages_length;
  mapping.data_ = static_cast<uint8_t*>(pages) + into_unit;
  mapping.length_ = length;
  return mapping;
}

PeerMapping::PeerMapping(PeerMapping&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      pages_length_(std::exchange(other.pages_length_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      length_(std::exchange(other.length_, 0)) {}

PeerMapping& PeerMapping::operator=(PeerMapping&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(pages_length_, other.pages_length_);
  std::swap(data_, other.data_);
  std::swap(length_, other.length_);
  return *this;
}

PeerMapping::~PeerMapping() {
  if (pages_) munmap(pages_, pages_length_);
}

}  // namespace verbatim::local
