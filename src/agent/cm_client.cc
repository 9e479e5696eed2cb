#include "agent/cm_client.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "agent/brief_wait.h"
#include "agent/cm_protocol.h"
#include "base/no_cancellation.h"

namespace verbatim {

using namespace agent;

namespace {

bool is_non_blocking(int fd) { return ::fcntl(fd, F_GETFL) & O_NONBLOCK; }

}  // namespace

Result<cm::IdHandle> CmChannel::create(cm::PortSpace space, cm::QpType qp_type) {
  const NoCancellation guard;
  char byte;
  if (::recv(fd(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0) return Status{ENODEV};
  const uint64_t number = last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > UINT32_MAX) return Status{ENOMEM};
  const cm::IdHandle id{handle_.value << 32 | number};
  const Status told =
      link_->tell_later(commands::Create{.id = id, .channel = handle_, .space = space, .qp_type = qp_type});
  if (!told.ok()) return told;
  return id;
}

// A number of a descriptor that is closed may be that of another one at once, which who looks again must not touch.
CmChannel::~CmChannel() {
  while (looking_.load(std::memory_order_acquire) != 0) ::sched_yield();  // with receive_soon()'s last act
  FileDescriptor(fd()).reset();
}

// An event that is there, or comes within moments: its size, or what recv(2) says.
ssize_t CmChannel::receive_soon(Frame& message) {
  const NoCancellation guard;
  looking_.fetch_add(1, std::memory_order_relaxed);
  ssize_t size = -1;
  const auto is_there = [&] {
    size = ::recv(fd(), message.bytes.data(), message.bytes.size(), MSG_DONTWAIT);
    return size >= 0 || errno != EAGAIN;
  };
  if (!is_there() && !is_non_blocking(fd())) wait_briefly(is_there);
  const int error = errno;
  looking_.fetch_sub(1, std::memory_order_release);  // with the destructor
  errno = error;
  return size;
}

// To wait is to take, in one call: an event that is taken back meanwhile wakes nobody, and who waits while the channel
// is destroyed waits on, as with the kernel's (rping does so).
Result<commands::Taken> CmChannel::take_event() {
  if (link_->is_copy()) return Status{ENODEV};  // events are for the parent
  Frame message;
  const int socket = fd();
  ssize_t size = receive_soon(message);
  if (size < 0 && errno == EAGAIN) size = ::recv(socket, message.bytes.data(), message.bytes.size(), 0);
  if (size < 0) return Status{errno};
  link_->follow_what_was_said();
  message.size = static_cast<size_t>(size);
  Result<commands::Taken> taken = decode_event(message.view());
  if (!taken.ok()) return Status{ENODEV};
  return taken;
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
