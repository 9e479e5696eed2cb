#include "agent/cm_service.h"

#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "agent/cm_protocol.h"
#include "base/log.h"
#include "base/reason.h"

namespace verbatim::agent {
namespace {

// After a shortage of descriptors or memory, which no event ends.
constexpr Duration kRetryInterval = Duration::milliseconds(100);

// Of what happens at no channel, none of which has this number.
constexpr uint64_t kNetworkTag = 0;

bool brings_view(cm::EventType type) {
  using enum cm::EventType;
  return type == addr_resolved || type == route_resolved || type == connect_request || type == connect_response;
}

}  // namespace

CmService::CmService(const cm::Configuration& configuration, std::unique_ptr<HostNetwork> network)
    : manager_(configuration), network_(std::move(network)) {}

Status CmService::start(Instant now) {
  if (!poll_.valid()) return {EMFILE};
  if (network_->fd() >= 0) {
    if (const Status added = poll_.add(network_->fd(), EPOLLIN, kNetworkTag); !added.ok()) return added;
  }
  read_addresses(now);
  return Status::success();
}

void CmService::on_ready(Instant now) {
  std::array<epoll_event, 64> room;
  std::span<epoll_event> events;
  do {
    events = poll_.wait(room, now, now);
    for (const epoll_event& event : events) {
      if (event.data.u64 == kNetworkTag) {
        read_addresses(now);
      } else {
        on_channel(now, {event.data.u64}, event.events);
      }
    }
  } while (events.size() == room.size());
  settle(now);
}

// It was closed, or has room again.
void CmService::on_channel(Instant now, cm::Channel channel, uint32_t events) {
  if (events & (EPOLLHUP | EPOLLERR)) {
    channels_.erase(channel);
    return manager_.on_channel_closed(now, channel);
  }
  wait_for_room(channel, false);
  send_events(now, channel);
}

// Where the kernel does not say, what it said last: no address has gone.
void CmService::read_addresses(Instant now) {
  Result<std::vector<cm::HostAddress>> addresses = network_->addresses();
  knows_addresses_ = addresses.ok();
  if (addresses.ok()) return manager_.set_addresses(addresses.take());
  log(LogLevel::warn, "agent: the kernel does not list this host's addresses: {}", ::strerror(addresses.error()));
  retry_later(now);
}

Instant CmService::next_deadline() const { return std::min(retry_at_, manager_.next_deadline()); }

void CmService::on_deadline(Instant now) {
  if (now < next_deadline()) return;
  manager_.on_deadline(now);
  if (retry_at_ <= now) {
    retry_at_ = kNever;
    if (!knows_addresses_) read_addresses(now);
    for (const auto& [handle, channel] : channels_) send_events(now, handle);
  }
  settle(now);
}

void CmService::retry_later(Instant now) { retry_at_ = std::min(retry_at_, now + kRetryInterval); }

void CmService::on_owner_death(Instant now, cm::Owner owner) {
  manager_.on_owner_death(now, owner);
  std::erase_if(channels_, [&](const auto& entry) { return entry.second.owner == owner; });
  settle(now);
}

// All that the manager has to say.
void CmService::settle(Instant now) {
  while (const std::optional<cm::OutgoingMad> mad = manager_.poll_mad()) deliver(now, *mad);
  while (const std::optional<cm::Question> question = manager_.poll_question())
    manager_.on_answer(question->id, Status{EHOSTUNREACH});
  while (const std::optional<cm::Channel> channel = manager_.poll_channel()) send_events(now, *channel);
}

// Both ends are here, even if the address is this host's no longer: no address of another could be resolved.
void CmService::deliver(Instant now, const cm::OutgoingMad& mad) {
  const Reason dropped = manager_.on_mad(now, {mad.address.remote, mad.address.local}, mad.bytes);
  if (dropped != Reason::none)
    log(LogLevel::trace, "agent: a message of connection management from {} to {}: {}", mad.address.local.text(),
        mad.address.remote.text(), describe(dropped).meaning);
}

// Of a channel that is closed, the poll will tell.
void CmService::send_events(Instant now, cm::Channel handle) {
  const auto found = channels_.find(handle);
  if (found == channels_.end() || found->second.is_full) return;
  EventChannel& channel = found->second;
  while (const cm::Event* const event = manager_.next_event(handle)) {
    const Frame message = message_of(*event, channel.owner);
    if (::send(channel.socket.get(), message.bytes.data(), message.size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN) return wait_for_room(handle, true);
      if (errno != EPIPE && errno != ECONNRESET) retry_later(now);
      return;
    }
    ++channel.events_sent;
    manager_.take_event(handle);
  }
}

Frame CmService::message_of(const cm::Event& event, cm::Owner owner) const {
  commands::Taken taken{.event = event, .view = std::nullopt};
  if (brings_view(event.type)) {
    if (const Result<cm::IdView> view = manager_.query(owner, event.id); view.ok()) taken.view = view.value();
  }
  return encode(taken);
}

void CmService::wait_for_room(cm::Channel handle, bool wait) {
  EventChannel& channel = channels_.at(handle);
  channel.is_full = poll_.modify(channel.socket.get(), wait ? EPOLLOUT : 0u, handle.value).ok() && wait;
}

// No more than were sent: what else is in there is not ours, and might not end.
void CmService::take_back(cm::Channel handle, const FileDescriptor& socket) {
  std::vector<cm::Event> events;
  Frame message;
  for (uint64_t i = 0; i < channels_.at(handle).events_sent; ++i) {
    const ssize_t size = ::recv(socket.get(), message.bytes.data(), message.bytes.size(), MSG_DONTWAIT);
    if (size <= 0) break;
    message.size = static_cast<size_t>(size);
    if (const Result<commands::Taken> taken = decode_event(message.view()); taken.ok())
      events.push_back(taken.value().event);
  }
  manager_.put_back(channels_.at(handle).owner, handle, events);
}

bool CmService::owns(cm::Owner owner, cm::Channel channel) const {
  const auto found = channels_.find(channel);
  return found != channels_.end() && found->second.owner == owner;
}

}  // namespace verbatim::agent
