// The XRC domains of this process, by the file that ibv_open_xrcd(3) was given: who opens the same file gets the same
// domain. A domain does not reach beyond its process; the file's name in the kernel (agent/name_claim.h) tells whether
// another process has one. Who asks for that one is refused. Who would have created it gets a domain of its own: the
// two ends of a connection may name the same file and share nothing (ibv_xsrq_pingpong does). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "agent/name_claim.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "model/xrc_domain.h"

namespace verbatim::runtime {

class XrcDomains {
 public:
  // Outlives what it has opened, as the identity outlives it.
  explicit XrcDomains(const AgentIdentity& identity) : identity_(identity) {}

  // The domain of the file `fd`, or for -1 a new one of no file. It goes with its last owner.
  // EBADF: no file. EAGAIN: there is no domain and O_CREAT is not in `flags`. EINVAL: there is one, of
  // whatever process, and O_EXCL is. EOPNOTSUPP: there is one, of another process, and O_CREAT is not.
  Result<std::shared_ptr<model::XrcDomain>> open(int fd, int flags);

  // Around a fork, which waits for a call that is under way.
  void pause() { mutex_.lock(); }
  void resume() { mutex_.unlock(); }
  // In the child of one: the names are its parent's.
  void abandon();

 private:
  struct Named;
  // st_dev and st_ino.
  using File = std::pair<uint64_t, uint64_t>;
  Result<std::shared_ptr<model::XrcDomain>> create(const File& file, int flags);

  const AgentIdentity& identity_;
  std::mutex mutex_;  // guards what follows
  std::map<File, std::weak_ptr<Named>> named_;
};

}  // namespace verbatim::runtime
