#include "agent/cm_client.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/no_cancellation.h"

namespace verbatim {

using namespace agent;

// Waiting takes nothing, so that nothing is lost when a thread is cancelled meanwhile.
Result<commands::Taken> CmChannel::take_event() {
  if (link_->is_copy()) return Status{ENODEV};  // the mark is for the parent
  for (;;) {
    char mark;
    const ssize_t waited = ::recv(fd(), &mark, sizeof mark, MSG_PEEK);
    if (waited < 0) return Status{errno};
    if (waited == 0) return Status{ENODEV};
    const NoCancellation guard;
    if (::recv(fd(), &mark, sizeof mark, MSG_DONTWAIT) != 1) continue;  // another thread was faster
    const Result<commands::Taken> taken = call(commands::TakeEvent{handle_});
    // The event was taken back since.
    if (taken.error() != EAGAIN) return taken;
  }
}

// If somebody else has read it meanwhile, it is theirs to account for.
void CmChannel::drop_mark() {
  const NoCancellation guard;
  char mark;
  if (::recv(fd(), &mark, sizeof mark, MSG_DONTWAIT) != 1) return;
  [[maybe_unused]] const Result<commands::Answer> dropped = link_->exchange(commands::DropMark{handle_});
}

Result<std::shared_ptr<CmLink>> CmClient::link() {
  const std::lock_guard lock(mutex_);
  if (link_ && !link_->is_broken()) return link_;
  Result<std::shared_ptr<CmLink>> opened = CmLink::open(identity_, agent_path_);
  if (opened.ok()) link_ = opened.value();
  return opened;
}

// An agent that ends just now costs one attempt.
Result<std::unique_ptr<CmChannel>> CmClient::open_channel() {
  if (mark_.is_copy()) return Status{ENODEV};
  const NoCancellation guard;
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<std::shared_ptr<CmLink>> reached = link();
    if (reached.error() == EPIPE || reached.error() == ECONNRESET) continue;
    if (!reached.ok()) return reached.status();
    FileDescriptor socket;
    const Result<commands::Answer> opened = reached.value()->exchange(commands::OpenChannel{}, &socket);
    if (opened.error() == ENODEV) continue;
    if (!opened.ok()) return opened.status();
    if (!socket.valid()) return Status{ENODEV};
    const cm::Channel handle = std::get<cm::Channel>(opened.value());
    return std::make_unique<CmChannel>(reached.value(), handle, std::move(socket));
  }
  return Status{ENODEV};
}

}  // namespace verbatim
