// Identifiers, their addresses, options, multicast groups and ends.
#include "cm/manager.h"

#include <cerrno>

namespace verbatim::cm {
namespace {

// Each number has the room that a REQ gives it (IBTA 12.6.5).
bool fits_into_request(const Path& path) {
  return path.flow_label < 1u << 20 && path.mtu < 1u << 4 && path.rate < 1u << 6 && path.service_level < 1u << 4 &&
         path.packet_lifetime < 1u << 5;
}

}  // namespace

Manager::Manager(const Configuration& configuration)
    : configuration_(configuration), random_(configuration.seed), ports_(configuration.ports) {
  transaction_half_ = draw();
  last_communication_id_.value = draw();
}

// --- identifiers ----------------------------------------------------------------------------------------------------

Status Manager::create(Owner owner, IdHandle handle, Channel channel, PortSpace space, QpType qp_type,
                       uint64_t context) {
  if (!handle || handle.value & kManagersHandles || ids_.contains(handle)) return {EINVAL};
  add(owner, handle, channel, space, qp_type, context);
  return Status::success();
}

Identifier& Manager::add(Owner owner, IdHandle handle, Channel channel, PortSpace space, QpType qp_type,
                         uint64_t context) {
  return ids_[handle] = {.handle = handle,
                         .owner = owner,
                         .channel = channel,
                         .space = space,
                         .qp_type = qp_type,
                         .context = context,
                         .starting_psn = Psn{draw() & 0xffffff}};
}

Result<Identifier*> Manager::find(Owner owner, IdHandle id) {
  const auto found = ids_.find(id);
  if (found == ids_.end()) return Status{ENOENT};
  if (found->second.owner != owner) return Status{EINVAL};
  return &found->second;
}

Result<Identifier*> Manager::find_for(Command command, Owner owner, IdHandle id) {
  const Result<Identifier*> found = find(owner, id);
  if (!found.ok()) return found;
  if (const Status allowed = check(command, found.value()->state); !allowed.ok()) return allowed;
  return found;
}

Status Manager::destroy(Instant now, Owner owner, IdHandle id) {
  const Result<Identifier*> found = find(owner, id);
  if (found.ok()) end(now, *found.value());
  return found.status();
}

void Manager::end(Instant now, Identifier& id) {
  const IdHandle handle = id.handle;
  end_memberships(id);
  part_from_connection(now, id);
  part_from_resolution(id);
  ports_.release(handle);
  address_deadlines_.clear(handle);
  const std::vector<IdHandle> requests = events_.forget(handle, id.channel);
  leave_backlog(id);
  for (IdHandle request : id.waiting) ids_.at(request).waits_at = {};
  ids_.erase(handle);
  for (IdHandle request : requests) end(now, ids_.at(request));
}

void Manager::leave_backlog(Identifier& request) {
  if (!request.waits_at) return;
  std::erase(ids_.at(request.waits_at).waiting, request.handle);
  request.waits_at = {};
}

Status Manager::migrate(Owner owner, IdHandle id, Channel channel) {
  const Result<Identifier*> found = find(owner, id);
  if (!found.ok()) return found.status();
  events_.move(id, found.value()->channel, channel);
  found.value()->channel = channel;
  return Status::success();
}

Status Manager::set_context(Owner owner, IdHandle id, uint64_t context) {
  const Result<Identifier*> found = find(owner, id);
  if (found.ok()) found.value()->context = context;
  return found.status();
}

Result<IdView> Manager::query(Owner owner, IdHandle handle) const {
  const auto found = ids_.find(handle);
  if (found == ids_.end()) return Status{ENOENT};
  const Identifier& id = found->second;
  if (id.owner != owner) return Status{EINVAL};
  IdView view{.state = id.state,
              .channel = id.channel,
              .space = id.space,
              .qp_type = id.qp_type,
              .source = id.source,
              .destination = id.destination,
              .has_device = id.interface_index.has_value(),
              .path = id.path,
              .ack_timeout = id.ack_timeout,
              .tos = id.tos};
  if (const ConnectionEntry* const entry = connections_.find(id.communication)) {
    view.qp = entry->connection.qp();
    view.qp->receive_psn = id.starting_psn;  // the connection knows it from the reply on, a queue pair before
    if (id.ack_timeout) view.qp->timeout = *id.ack_timeout;
    view.knows_peer = entry->connection.knows_peer();
  }
  return view;
}

void Manager::on_owner_death(Instant now, Owner owner) {
  std::vector<IdHandle> orphans;
  for (const auto& [handle, id] : ids_)
    if (id.owner == owner) orphans.push_back(handle);
  // The end of a listener is also that of requests that were not taken.
  for (IdHandle orphan : orphans)
    if (const auto found = ids_.find(orphan); found != ids_.end()) end(now, found->second);
}

void Manager::on_channel_closed(Instant now, Channel channel) {
  std::vector<IdHandle> orphans;
  for (const auto& [handle, id] : ids_)
    if (id.channel == channel && !id.listener) orphans.push_back(handle);
  for (IdHandle orphan : orphans) end(now, ids_.at(orphan));
}

// --- options --------------------------------------------------------------------------------------------------------

Status Manager::set_tos(Owner owner, IdHandle id, uint8_t tos) {
  const Result<Identifier*> found = find(owner, id);
  if (found.ok()) found.value()->tos = tos;
  return found.status();
}

Status Manager::set_ack_timeout(Owner owner, IdHandle id, uint8_t ack_timeout) {
  const Result<Identifier*> found = find(owner, id);
  if (!found.ok()) return found.status();
  if (found.value()->is_for_datagrams() || ack_timeout > 31) return {EINVAL};
  found.value()->ack_timeout = ack_timeout;
  return Status::success();
}

Status Manager::set_reuse_address(Owner owner, IdHandle id, bool reuse) {
  const Result<Identifier*> found = reuse ? find(owner, id) : find_for(Command::stop_reusing_address, owner, id);
  if (!found.ok()) return found.status();
  found.value()->reuse_address = reuse;
  ports_.set_reuse_address(id, reuse);
  return Status::success();
}

Status Manager::set_family_only(Owner owner, IdHandle id, bool only) {
  const Result<Identifier*> found = find_for(Command::set_family_only, owner, id);
  if (!found.ok()) return found.status();
  found.value()->family_only = only;
  ports_.set_family_only(id, only);
  return Status::success();
}

Status Manager::set_path(Owner owner, IdHandle handle, const Path& path) {
  const Result<Identifier*> found = find_for(Command::set_path, owner, handle);
  if (!found.ok()) return found.status();
  if (!fits_into_request(path)) return {EINVAL};
  Identifier& id = *found.value();
  id.path = path;
  // Between which addresses it leads is not the program's to say.
  id.path->source = id.source.ip;
  id.path->destination = id.destination.ip;
  id.path->interface_index = *id.interface_index;
  id.state = IdState::route_resolved;
  report(id, {.type = EventType::route_resolved});
  return Status::success();
}

// --- addresses ------------------------------------------------------------------------------------------------------

const HostAddress* Manager::host_address(const Address& address) const {
  const auto found = std::ranges::find_if(addresses_, [&](const HostAddress& host) {
    return host.ip == address.ip &&
           (!address.is_link_local() || address.scope_id == 0 || address.scope_id == host.interface_index);
  });
  return found == addresses_.end() ? nullptr : &*found;
}

const HostAddress* Manager::source_towards_group(const Address& group) const {
  const auto found = std::ranges::find_if(addresses_, [&](const HostAddress& host) {
    return host.ip.is_ipv4_mapped() == group.ip.is_ipv4_mapped() &&
           (group.scope_id == 0 || group.scope_id == host.interface_index);
  });
  return found == addresses_.end() ? nullptr : &*found;
}

Status Manager::bind(Owner owner, IdHandle id, const Address& source, bool privileged) {
  const Result<Identifier*> found = find_for(Command::bind, owner, id);
  return found.ok() ? bind_source(*found.value(), source, {}, privileged) : found.status();
}

Status Manager::bind_source(Identifier& id, const Address& source, const Address& destination, bool privileged) {
  if (source.family == Family::none) return {EAFNOSUPPORT};
  if (source.is_link_local() && source.scope_id == 0) return {EINVAL};
  const HostAddress* const host = source.is_wildcard() ? nullptr : host_address(source);
  if (!source.is_wildcard() && (!host || !has_device_)) return {EADDRNOTAVAIL};
  const bool family_only = source.family == Family::ipv4 || configuration_.ipv6_only;
  const Binding binding{.space = id.space,
                        .source = source,
                        .destination = destination,
                        .reuse_address = id.reuse_address,
                        .family_only = id.family_only.value_or(family_only)};
  const Result<uint16_t> port = ports_.bind(id.handle, binding, privileged, draw());
  if (!port.ok()) return port.status();
  id.source = source.with_port(port.value());
  if (host) id.interface_index = host->interface_index;
  id.state = IdState::bound;
  return Status::success();
}

Status Manager::resolve_address(Instant now, Owner owner, IdHandle handle, const Resolve& what) {
  const Result<Identifier*> found = find_for(Command::resolve_address, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  Address destination = what.destination;
  Address source = id.source;
  if (id.state == IdState::idle) {
    source = what.source.family != Family::none ? what.source : Address::wildcard(destination.family);
    if (what.source.family == Family::none) source.scope_id = destination.scope_id;
  }
  if (destination.family == Family::none) return {EAFNOSUPPORT};
  if (source.family != destination.family) return {EINVAL};
  // Like connect(2): to the wildcard address means to oneself.
  if (destination.is_wildcard())
    destination = (source.is_wildcard() ? Address::loopback(source.family) : source).with_port(destination.port);
  if (id.state == IdState::idle) {
    if (const Status bound = bind_source(id, source, destination, what.privileged); !bound.ok()) return bound;
  }
  ports_.set_destination(handle, destination);
  id.destination = destination;
  id.state = IdState::resolving_address;

  constexpr uint8_t kHopLimit = 64;
  const bool is_group = destination.ip.is_multicast();
  const HostAddress* const host = is_group ? source_towards_group(destination) : host_address(destination);
  const HostAddress* const own = id.source.is_wildcard() ? host : host_address(id.source);
  if (own && (host || is_group)) {
    arrive(id, *own, kHopLimit);
  } else {
    questions_.push_back({handle, id.source, destination});
    address_deadlines_.set(handle, now + what.timeout);
  }
  return Status::success();
}

// The destination can be reached from this address of ours.
void Manager::arrive(Identifier& id, const HostAddress& source, uint8_t hop_limit) {
  if (!has_device_) return fail_resolution(id, ENODEV);
  address_deadlines_.clear(id.handle);
  if (id.source.is_wildcard()) {
    id.source.ip = source.ip;
    id.source.scope_id = id.source.is_link_local() ? source.interface_index : 0;
  }
  if (id.destination.is_link_local() && id.destination.scope_id == 0) id.destination.scope_id = source.interface_index;
  id.interface_index = source.interface_index;
  id.path_mtu = source.path_mtu;
  id.path_rate = source.rate;
  id.hop_limit = hop_limit;
  id.state = IdState::address_resolved;
  report(id, {.type = EventType::addr_resolved});
}

void Manager::fail_resolution(Identifier& id, int error) {
  address_deadlines_.clear(id.handle);
  id.state = IdState::bound;
  report(id, {.type = EventType::addr_error, .status = -error});
}

std::optional<Question> Manager::poll_question() {
  while (!questions_.empty()) {
    const Question question = questions_.front();
    questions_.pop_front();
    const auto found = ids_.find(question.id);
    if (found != ids_.end() && found->second.state == IdState::resolving_address) return question;
  }
  return std::nullopt;
}

void Manager::on_answer(IdHandle id, const Result<Route>& route) {
  const auto found = ids_.find(id);
  if (found == ids_.end() || found->second.state != IdState::resolving_address) return;
  if (route.ok())
    arrive(found->second, route.value().source, route.value().hop_limit);
  else
    fail_resolution(found->second, route.error());
}

Path Manager::path_of(const Identifier& id) const {
  // As Linux' rdma_cm draws it: the same for both directions, and another for each connection.
  const uint32_t flow_label = (id.source.port * 31u + id.destination.port) & 0xfffff;
  const bool has_ack_timeout = id.ack_timeout.value_or(0) != 0;
  return {
      .source = id.source.ip,
      .destination = id.destination.ip,
      .interface_index = *id.interface_index,
      .flow_label = flow_label,
      .traffic_class = id.tos.value_or(0),
      .hop_limit = id.hop_limit,
      .mtu = id.path_mtu,
      .rate = id.path_rate,
      .packet_lifetime = has_ack_timeout ? static_cast<uint8_t>(*id.ack_timeout - 1) : configuration_.packet_lifetime};
}

Status Manager::resolve_route(Owner owner, IdHandle handle) {
  const Result<Identifier*> found = find_for(Command::resolve_route, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  id.path = path_of(id);
  id.state = IdState::route_resolved;
  report(id, {.type = EventType::route_resolved});
  return Status::success();
}

// --- the device -----------------------------------------------------------------------------------------------------

void Manager::remove_device() {
  has_device_ = false;
  for (auto& [handle, id] : ids_) {
    if (!id.interface_index) continue;
    id.state = IdState::device_removed;
    address_deadlines_.clear(handle);
    report(id, {.type = EventType::device_removal});
  }
}

void Manager::on_address_change(uint32_t interface_index) {
  for (const auto& [handle, id] : ids_)
    if (id.interface_index == interface_index) report(id, {.type = EventType::addr_change});
}

// --- multicast ------------------------------------------------------------------------------------------------------

Result<MembershipHandle> Manager::join(Owner owner, IdHandle handle, const Address& group, uint64_t context) {
  const Result<Identifier*> found = find_for(Command::join, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  if (!id.is_for_datagrams() || !id.interface_index || !group.ip.is_multicast()) return Status{EINVAL};
  constexpr Qpn kMulticastQpn{0xffffff};
  const MembershipHandle membership{++last_handle_};
  id.memberships.push_back({membership, group});
  memberships_[membership] = handle;
  Path path{.source = id.source.ip,
            .destination = group.ip,
            .interface_index = *id.interface_index,
            .traffic_class = id.tos.value_or(0)};
  if (const HostAddress* const host = host_address(id.source)) path.mtu = host->path_mtu, path.rate = host->rate;
  events_.push(id.channel, {.type = EventType::multicast_join,
                            .id = handle,
                            .context = context,
                            .datagram = {.path = path, .qpn = kMulticastQpn, .q_key = kUdpQKey},
                            .membership = membership});
  return membership;
}

Status Manager::leave(Owner owner, MembershipHandle membership) {
  const auto found = memberships_.find(membership);
  if (found == memberships_.end()) return Status{ENOENT};
  const Result<Identifier*> id = find(owner, found->second);
  if (!id.ok()) return id.status();
  events_.forget(membership, id.value()->channel);
  std::erase_if(id.value()->memberships, [&](const Membership& joined) { return joined.handle == membership; });
  memberships_.erase(found);
  return Status::success();
}

void Manager::end_memberships(Identifier& id) {
  for (const Membership& joined : id.memberships) {
    events_.forget(joined.handle, id.channel);
    memberships_.erase(joined.handle);
  }
}

}  // namespace verbatim::cm
