#include "agent/agent_server.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "agent/process.h"
#include "base/log.h"

namespace verbatim::agent {
namespace {

// After a shortage of descriptors or memory, which no event ends.
constexpr Duration kRetryInterval = Duration::milliseconds(100);

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

// Four descriptors for each member: the usual soft limit of 1,024 would be the limit of the host.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status make_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return {errno};
  return {::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : errno};
}

}  // namespace

AgentServer::AgentServer(AgentIdentity identity, FileDescriptor listener, AgentOptions options)
    : identity_(std::move(identity)),
      options_(options),
      listener_(std::move(listener)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Status AgentServer::run() {
  const Status prepared = prepare();
  if (!prepared.ok()) return prepared;
  idle_since_ = monotonic_now();
  while (!stopping_.load(std::memory_order_relaxed) && !is_idle(monotonic_now())) serve_once();
  return Status::success();
}

void AgentServer::stop() {
  stopping_.store(true, std::memory_order_relaxed);  // a flag alone: nothing else is handed over
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

Status AgentServer::prepare() {
  raise_descriptor_limit();
  if (!poll_.valid() || !wake_.valid()) return {EMFILE};
  const Status non_blocking = make_non_blocking(listener_.get());
  if (!non_blocking.ok()) return non_blocking;
  const Status woken = poll_.add(wake_.get(), EPOLLIN, tag_of(Source::wake, 0));
  if (!woken.ok()) return woken;
  return poll_.add(listener_.get(), EPOLLIN, tag_of(Source::listener, 0));
}

void AgentServer::serve_once() {
  std::array<epoll_event, 64> room;
  const Instant now = monotonic_now();
  const bool is_brief = now < brief_wait_end_;
  const std::span<const epoll_event> events = poll_.wait(room, is_brief ? now : next_deadline(), now);
  if (events.empty() && is_brief) ::sched_yield();
  for (const epoll_event& event : events) on_event(event.data.u64, event.events);
  on_time(monotonic_now());
  while (somebody_left_ || !to_flush_.empty()) {
    if (std::exchange(somebody_left_, false)) retry_postponed();
    flush_all();
  }
}

Instant AgentServer::next_deadline() const {
  Instant deadline = retry_at_;
  if (cm_) deadline = std::min(deadline, cm_->next_deadline());
  if (connections_.empty()) deadline = std::min(deadline, idle_since_ + options_.linger);
  for (const auto& [id, connection] : connections_) {
    if (connection.postponed) deadline = std::min(deadline, connection.postponed->deadline);
  }
  return deadline;
}

void AgentServer::on_event(uint64_t tag, uint32_t events) {
  const Id id = tag >> kSourceBits;
  switch (static_cast<Source>(tag & ((1u << kSourceBits) - 1))) {
    case Source::listener:
      return accept_all();
    case Source::wake:
      return;
    case Source::socket:
      return on_socket(id, events);
    case Source::process:
      return bury(id);
    case Source::watch:
      return on_watched_end(id);
    case Source::cm:
      return cm_->on_ready(monotonic_now());
  }
}

void AgentServer::on_socket(Id id, uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (events & EPOLLOUT) to_flush_.insert(id);
  if (!found->second.postponed) return read_from(id);
  if (events & (EPOLLHUP | EPOLLERR)) bury(id);
}

void AgentServer::on_watched_end(Id id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  const Incarnation process = found->second.process;
  watches_.erase(found);
  registry_.died(process);
}

void AgentServer::on_time(Instant now) {
  std::vector<Id> too_late;
  for (const auto& [id, connection] : connections_) {
    if (connection.postponed && connection.postponed->deadline <= now) too_late.push_back(id);
  }
  for (Id id : too_late) cut_off(id, Refusal::slot_taken);
  if (retry_at_ <= now) on_retry();
  if (cm_) cm_->on_deadline(now);
}

void AgentServer::on_retry() {
  retry_at_ = kNever;
  if (listener_paused_) pause_listener(false);
  for (const auto& [id, connection] : connections_) {
    if (connection.send_stalled) to_flush_.insert(id);
  }
  std::vector<Id> unopened;
  for (const auto& [id, watch] : watches_) {
    if (!watch.pidfd.valid()) unopened.push_back(id);
  }
  for (Id id : unopened) open_watch(id);
}

bool AgentServer::is_idle(Instant now) {
  if (!connections_.empty() || now < idle_since_ + options_.linger) return false;
  // Whoever connected in the last moment waits in the backlog, and our end would turn it away.
  accept_all();
  flush_all();
  return connections_.empty();
}

void AgentServer::accept_all() {
  for (;;) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      admit(std::move(socket));
    } else if (is_shortage(errno)) {
      log(LogLevel::warn, "agent: no room for another process now, trying again");
      return pause_listener(true);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void AgentServer::admit(FileDescriptor socket) {
  std::variant<Admission, Refusal> verdict = examine(socket.get(), identity_);
  if (const Refusal* refusal = std::get_if<Refusal>(&verdict)) {
    log(LogLevel::warn, "agent: refused a process: {}", describe(*refusal));
    [[maybe_unused]] const Status sent =
        send_packet(socket.get(), encode(ToMember(Refused{static_cast<uint32_t>(*refusal)})), {});
    return;
  }
  const Id id = next_id_++;
  Connection& connection = connections_[id];
  connection.socket = std::move(socket);
  connection.process = std::move(std::get<Admission>(verdict));
  connection.outgoing.push(encode(ToMember(Welcome{})));
  to_flush_.insert(id);
  const bool attached = enable_credentials(connection.socket.get()).ok() &&
                        poll_.add(connection.socket.get(), EPOLLIN, tag_of(Source::socket, id)).ok() &&
                        poll_.add(connection.process.pidfd.get(), EPOLLIN, tag_of(Source::process, id)).ok();
  if (!attached) cut_off(id, Refusal::out_of_descriptors);
}

// While it is short of descriptors the listener stays readable, and waiting for it would spin.
void AgentServer::pause_listener(bool paused) {
  listener_paused_ = paused;
  [[maybe_unused]] const Status changed =
      poll_.modify(listener_.get(), paused ? 0u : EPOLLIN, tag_of(Source::listener, 0));
  if (paused) retry_soon();
}

void AgentServer::retry_soon() { retry_at_ = std::min(retry_at_, monotonic_now() + kRetryInterval); }

// It hung up or its process ended.
void AgentServer::bury(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Incarnation member = found->second.member;
  remove(id);
  if (member != Incarnation{}) registry_.died(member);
  forget_unknown();
}

// It lives, but there is no talking to it. Its peers have its memory and it has theirs, so it is not dead for them.
void AgentServer::cut_off(Id id, Refusal refusal) {
  Connection& connection = connections_.at(id);
  log(LogLevel::warn, "agent: cut off process {}: {}", connection.process.pid, describe(refusal));
  [[maybe_unused]] const Status sent =
      send_packet(connection.socket.get(), encode(ToMember(Refused{static_cast<uint32_t>(refusal)})), {});
  const Incarnation member = connection.member;
  Watch later{member, connection.process.pid, connection.process.start_time, {}};
  remove(id);
  if (member == Incarnation{}) return;
  registry_.left(member);
  if (registry_.is_known(member)) watch(std::move(later));
  forget_unknown();
}

void AgentServer::remove(Id id) {
  const auto found = connections_.find(id);
  if (found->second.member != Incarnation{}) members_.erase(found->second.member);
  const bool was_managing = found->second.is_managing;
  connections_.erase(found);
  if (was_managing) cm_->on_owner_death(monotonic_now(), {id});
  to_flush_.erase(id);
  somebody_left_ = true;
  if (connections_.empty()) idle_since_ = monotonic_now();
}

void AgentServer::watch(Watch watch) {
  const Id id = next_id_++;
  watches_[id] = std::move(watch);
  open_watch(id);
}

void AgentServer::open_watch(Id id) {
  Watch& watch = watches_.at(id);
  Result<FileDescriptor> pidfd = open_pidfd(watch.pid);
  if (!pidfd.ok() && is_shortage(pidfd.error())) return retry_soon();
  // Read after the pidfd was opened: with the right start time, the pidfd is that process's.
  const Result<uint64_t> start_time = read_start_time(watch.pid);
  if (!start_time.ok() && is_shortage(start_time.error())) return retry_soon();
  if (!pidfd.ok() || !start_time.ok() || start_time.value() != watch.start_time) return on_watched_end(id);
  if (!poll_.add(pidfd.value().get(), EPOLLIN, tag_of(Source::watch, id)).ok()) return retry_soon();
  watch.pidfd = pidfd.take();
}

void AgentServer::unwatch(Incarnation process) {
  std::erase_if(watches_, [&](const auto& entry) { return entry.second.process == process; });
}

// Absent processes whose memory nobody has any more concern nobody.
void AgentServer::forget_unknown() {
  std::vector<Incarnation> unknown;
  for (const auto& [id, watch] : watches_) {
    if (!registry_.is_known(watch.process)) unknown.push_back(watch.process);
  }
  for (Incarnation process : unknown) {
    unwatch(process);
    registry_.died(process);
  }
}

}  // namespace verbatim::agent
