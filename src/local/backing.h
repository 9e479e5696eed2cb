// Files behind memory. On the owner's side: which file a registered range is a shared mapping of, and an fd of our own
// that keeps that file within reach of peers. On the peer's side: a mapping of that file, opened through /proc.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace verbatim::local {

// Where memory lies in a file. `device` and `inode` are what fstat() says of `fd`.
struct FileBacking {
  int fd = -1;  // in this process
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t offset = 0;    // of the first byte of the range, in bytes
  bool writable = false;  // the fd reads and writes; otherwise the memory, and with it the fd, can only be read
};

class SharedFile;

// A FileBacking whose fd stays open as long as this or any copy of it lives.
class OwnedBacking {
 public:
  OwnedBacking(std::shared_ptr<const SharedFile> file, FileBacking backing)
      : file_(std::move(file)), backing_(backing) {}
  const FileBacking& backing() const { return backing_; }

 private:
  std::shared_ptr<const SharedFile> file_;
  FileBacking backing_;
};

// Finds backings, and opens each file once however many ranges of it are in use. Thread-safe.
//
// Linux gives up a process's POSIX record locks on a file when any fd of it is closed in that process: the last
// OwnedBacking of a file does that too, and so does the end of PeerMapping::open().
class BackingRegistry {
 public:
  // Nothing, and no error, when the range is not one stretch of one file's shared mappings, or when that file is out of
  // reach: private and anonymous memory, devices, a deleted file that nobody here has open. Errors: those of
  // find_mappings().
  Result<std::optional<OwnedBacking>> find(uint64_t address, uint64_t length);

 private:
  struct Key {
    dev_t device;  // as in Mapping
    ino_t inode;
    bool writable;
    auto operator<=>(const Key&) const = default;
  };
  std::shared_ptr<const SharedFile> known(const Key& key) const;
  void remember(const Key& key, const std::shared_ptr<const SharedFile>& file);

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const SharedFile>> files_;
  size_t prune_at_ = 16;
};

// The same from the process's own registry.
Result<std::optional<OwnedBacking>> find_backing(uint64_t address, uint64_t length);

// A part of a peer's file, mapped here. Whoever has it can lose the memory at any moment, since the peer may truncate
// the file: it is touched through guarded_copy() only. open() installs the guard.
class PeerMapping {
 public:
  // Maps [offset, offset + length) of what `fd_in_peer` is in process `pid`. Nothing the peer says is believed, so:
  //   ESRCH       there is no such process              EBADF      it has no such fd
  //   ESTALE      the fd is another file than told      ENODEV     it is not a regular file
  //   ENXIO       the file ends before the range does   EPERM      its seals forbid writing
  //   EINVAL      an empty range                        EOVERFLOW  a range that no file has
  // or the errno of open() (EACCES: /proc does not let us, ptrace_may_access()) or mmap().
  static Result<PeerMapping> open(pid_t pid, int fd_in_peer, dev_t device, ino_t inode, uint64_t offset,
                                  uint64_t length, bool writable);

  PeerMapping(PeerMapping&& other) noexcept;
  PeerMapping& operator=(PeerMapping&& other) noexcept;
  ~PeerMapping();

  // The byte at `offset` of the file. Read-only memory unless opened writable.
  uint8_t* data() const { return data_; }
  size_t length() const { return length_; }

 private:
  PeerMapping() = default;

  void* pages_ = nullptr;  // what was mapped: whole pages
  size_t pages_length_ = 0;
  uint8_t* data_ = nullptr;
  size_t length_ = 0;
};

}  // namespace verbatim::local
