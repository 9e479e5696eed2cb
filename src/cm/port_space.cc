#include "cm/port_space.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::cm {
namespace {

// Speak `one` and `other`, who share a port, with different destinations?
bool are_told_apart_by_peers(const Binding& one, const Binding& other) {
  const bool other_has_peer = other.destination.family != Family::none;
  if (other_has_peer && other.destination.port != 0 && one.destination.port != other.destination.port) return true;
  if (!one.source.is_wildcard() && !other.source.is_wildcard() && !one.source.is_same_host(other.source)) return true;
  return other_has_peer && !other.destination.is_wildcard() && !one.destination.is_same_host(other.destination);
}

bool takes_requests_for(const Binding& listener, const Address& destination) {
  if (listener.source.is_wildcard())
    return listener.source.family == destination.family ||
           (listener.source.family == Family::ipv6 && !listener.family_only);
  return listener.source.family == destination.family && listener.source.ip == destination.ip;
}

}  // namespace

Result<uint16_t> PortTable::bind(IdHandle who, const Binding& binding, bool privileged, uint32_t random) {
  const uint16_t port = binding.source.port;
  if (port == 0) return bind_any(who, binding, random);
  if (port < rules_.first_unprivileged && !privileged) return Status{EACCES};
  if (const Status free = check(who, binding, binding.reuse_address); !free.ok()) return free;
  return add(who, binding, port);
}

Result<uint16_t> PortTable::bind_any(IdHandle who, const Binding& binding, uint32_t random) {
  const uint32_t count = rules_.last_ephemeral - rules_.first_ephemeral + 1u;
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(rules_.first_ephemeral + (random % count + i) % count);
    if (port == last_given_ || !is_free_for(binding, port)) continue;
    last_given_ = port;
    return add(who, binding, port);
  }
  return Status{EADDRNOTAVAIL};
}

Result<uint16_t> PortTable::add(IdHandle who, const Binding& binding, uint16_t port) {
  Binding bound = binding;
  bound.source.port = port;
  bound_[who] = bound;
  owners_[{binding.space, port}].push_back(who);
  return port;
}

bool PortTable::is_free_for(const Binding& binding, uint16_t port) const {
  const auto found = owners_.find({binding.space, port});
  return found == owners_.end() || std::ranges::all_of(found->second, [&](IdHandle other) {
           return are_told_apart_by_peers(binding, bound_.at(other));
         });
}

Status PortTable::check(IdHandle who, const Binding& binding, bool reuse) const {
  const auto found = owners_.find({binding.space, binding.source.port});
  if (found == owners_.end()) return Status::success();
  for (IdHandle owner : found->second) {
    const Binding& other = bound_.at(owner);
    if (owner == who || (reuse && other.reuse_address && !other.listening)) continue;
    if (binding.family_only && other.family_only && binding.source.family != other.source.family) continue;
    if (binding.source.is_wildcard() || other.source.is_wildcard()) return {EADDRNOTAVAIL};
    if (binding.source.is_same_host(other.source)) return {EADDRINUSE};
  }
  return Status::success();
}

void PortTable::release(IdHandle who) {
  const auto found = bound_.find(who);
  if (found == bound_.end()) return;
  const auto port = owners_.find({found->second.space, found->second.source.port});
  std::erase(port->second, who);
  if (port->second.empty()) owners_.erase(port);
  bound_.erase(found);
}

Status PortTable::listen(IdHandle who) {
  Binding& binding = bound_.at(who);
  if (binding.reuse_address) {
    if (const Status alone = check(who, binding, false); !alone.ok()) return alone;
  }
  binding.listening = true;
  return Status::success();
}

void PortTable::set_reuse_address(IdHandle who, bool reuse) {
  if (const auto found = bound_.find(who); found != bound_.end()) found->second.reuse_address = reuse;
}

void PortTable::set_family_only(IdHandle who, bool only) {
  if (const auto found = bound_.find(who); found != bound_.end()) found->second.family_only = only;
}

bool PortTable::has_listener(PortSpace space, uint16_t port) const {
  const auto found = owners_.find({space, port});
  return found != owners_.end() &&
         std::ranges::any_of(found->second, [&](IdHandle owner) { return bound_.at(owner).listening; });
}

std::optional<IdHandle> PortTable::listener(PortSpace space, const Address& destination) const {
  const auto found = owners_.find({space, destination.port});
  if (found == owners_.end()) return std::nullopt;
  std::optional<IdHandle> best;
  for (IdHandle owner : found->second) {
    const Binding& binding = bound_.at(owner);
    if (!binding.listening || !takes_requests_for(binding, destination)) continue;
    if (!best || !binding.source.is_wildcard()) best = owner;
  }
  return best;
}

}  // namespace verbatim::cm
