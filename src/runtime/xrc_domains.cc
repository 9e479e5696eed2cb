#include "runtime/xrc_domains.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"

namespace verbatim::runtime {

struct XrcDomains::Named {
  FileDescriptor claim;
  model::XrcDomain domain;
};

Result<std::shared_ptr<model::XrcDomain>> XrcDomains::open(int fd, int flags) {
  if (fd == -1) return std::make_shared<model::XrcDomain>();
  struct stat status {};
  if (fstat(fd, &status) != 0) return Status{errno};
  const File file{status.st_dev, status.st_ino};
  std::lock_guard lock(mutex_);
  const auto found = named_.find(file);
  const std::shared_ptr<Named> named = found == named_.end() ? nullptr : found->second.lock();
  if (!named) return create(file, flags);
  if (flags & O_EXCL) return Status{EINVAL};
  return std::shared_ptr<model::XrcDomain>(named, &named->domain);
}

Result<std::shared_ptr<model::XrcDomain>> XrcDomains::create(const File& file, int flags) {
  Result<FileDescriptor> claim = claim_name(identity_.xrc_domain_name(file.first, file.second));
  const bool elsewhere = claim.error() == EADDRINUSE;
  if (!claim.ok() && !elsewhere) return claim.status();
  if (elsewhere && (flags & O_EXCL)) return Status{EINVAL};
  if (!(flags & O_CREAT)) return Status{elsewhere ? EOPNOTSUPP : EAGAIN};
  const auto named = std::make_shared<Named>();
  if (elsewhere)
    log(LogLevel::warn, "XRC domain of inode {}: another process has one too, and they are not the same", file.second);
  else
    named->claim = claim.take();
  std::erase_if(named_, [](const auto& entry) { return entry.second.expired(); });
  named_[file] = named;
  return std::shared_ptr<model::XrcDomain>(named, &named->domain);
}

void XrcDomains::abandon() {
  for (const auto& [file, owner] : named_) {
    if (const std::shared_ptr<Named> named = owner.lock()) named->claim.reset();
  }
}

}  // namespace verbatim::runtime
