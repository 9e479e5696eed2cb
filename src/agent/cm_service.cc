#include "agent/cm_service.h"

#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/reason.h"

namespace verbatim::agent {
namespace {

// After a shortage of descriptors or memory, which no event ends.
constexpr Duration kRetryInterval = Duration::milliseconds(100);

// Of what happens at no channel, none of which has this number.
constexpr uint64_t kNetworkTag = 0;

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
        const cm::Channel closed{event.data.u64};
        channels_.erase(closed);
        manager_.on_channel_closed(now, closed);
      }
    }
  } while (events.size() == room.size());
  settle(now);
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
    for (const auto& [handle, channel] : channels_) mark(now, handle);
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
  while (const std::optional<cm::Channel> channel = manager_.poll_channel()) mark(now, *channel);
}

// Both ends are here, even if the address is this host's no longer: no address of another could be resolved.
void CmService::deliver(Instant now, const cm::OutgoingMad& mad) {
  const Reason dropped = manager_.on_mad(now, {mad.address.remote, mad.address.local}, mad.bytes);
  if (dropped != Reason::none)
    log(LogLevel::trace, "agent: a message of connection management from {} to {}: {}", mad.address.local.text(),
        mad.address.remote.text(), describe(dropped).meaning);
}

void CmService::mark(Instant now, cm::Channel handle) {
  const auto found = channels_.find(handle);
  if (found == channels_.end() || found->second.marked || !manager_.has_event(handle)) return;
  const char byte = 1;
  found->second.marked = ::send(found->second.socket.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  const bool is_closed = errno == EPIPE || errno == ECONNRESET;
  if (!found->second.marked && !is_closed) retry_later(now);
}

bool CmService::owns(cm::Owner owner, cm::Channel channel) const {
  const auto found = channels_.find(channel);
  return found != channels_.end() && found->second.owner == owner;
}

bool CmService::is_mark_void(cm::Owner owner, cm::Channel channel) const {
  return owns(owner, channel) && channels_.at(channel).marked && !manager_.has_event(channel);
}

}  // namespace verbatim::agent
