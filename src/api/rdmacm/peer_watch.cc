#include "api/rdmacm/peer_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>

namespace verbatim::api {

Status PeerWatch::start() {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return {errno};
  epoll_ = std::move(epoll);
  // Signals are the program's threads' to handle.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error& failure) {
    error = failure.code().value();
    epoll_ = FileDescriptor();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {error};
}

Status PeerWatch::add(IdObject& id) {
  const std::lock_guard lock(mutex_);
  if (!epoll_.valid()) {
    if (const Status started = start(); !started.ok()) return started;
  }
  // By number: what the kernel reports about one that was removed meanwhile is about nobody.
  const uint64_t number = ++last_number_;
  epoll_event interest{.events = EPOLLIN | EPOLLET, .data = {.u64 = number}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, id.base.channel->fd, &interest) != 0) return {errno};
  watched_[number] = &id;
  return Status::success();
}

void PeerWatch::remove(const IdObject& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(watched_, &id, [](const auto& entry) { return entry.second; });
  if (found == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, id.base.channel->fd, nullptr);
  watched_.erase(found);
}

void PeerWatch::run() {
  pthread_setname_np(pthread_self(), "verbatim-cm");
  const int epoll = [this] {
    const std::lock_guard lock(mutex_);
    return epoll_.get();
  }();
  for (;;) {
    std::array<epoll_event, 16> events;
    const int count = epoll_wait(epoll, events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) look(events[i].data.u64);
  }
}

void PeerWatch::look(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(number);
  if (found == watched_.end()) return;
  const IdObject& id = *found->second;
  const Result<cm::IdView> view = id.channel().call(commands::Query{id.handle});
  // When the agent has gone, nobody will say that the peer has.
  if (view.ok() && view.value().state != cm::IdState::disconnected) return;
  ibv_qp_attr attributes{.qp_state = IBV_QPS_ERR};
  ibv_modify_qp(id.base.qp, &attributes, IBV_QP_STATE);
}

}  // namespace verbatim::api
