// What peers say.
#include <utility>

#include "cm/manager.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::cm {

using wire::RejectReason;

Reason Manager::on_mad(Instant now, const MadAddress& from, std::span<const uint8_t> bytes) {
  const std::variant<wire::CmMessage, Reason> parsed = wire::parse_cm(bytes);
  if (const Reason* const reason = std::get_if<Reason>(&parsed)) return *reason;
  const wire::CmMessage& message = std::get<wire::CmMessage>(parsed);
  return std::visit([&](const auto& body) { return on(now, from, message, body); }, message.body);
}

// --- requests -------------------------------------------------------------------------------------------------------

Reason Manager::on(Instant now, const MadAddress& from, const wire::CmMessage& message, const wire::Req& req) {
  return hear(now, {now + configuration_.listener_patience, from, message}, req);
}

Reason Manager::on(Instant now, const MadAddress& from, const wire::CmMessage& message, const wire::SidrReq& req) {
  return hear(now, {now + configuration_.listener_patience, from, message}, req);
}

bool Manager::wait_for_listener(Instant now, const Unheard& request) {
  constexpr size_t kMost = 1024;
  const bool waits = now < request.until && unheard_.size() < kMost;
  if (waits) unheard_.push_back(request);
  return waits;
}

// Those for whom there is still nobody wait on, in their order.
void Manager::hear_again(Instant now) {
  for (const Unheard& request : std::exchange(unheard_, {})) {
    if (const wire::Req* const req = std::get_if<wire::Req>(&request.message.body))
      hear(now, request, *req);
    else
      hear(now, request, std::get<wire::SidrReq>(request.message.body));
  }
}

Reason Manager::hear(Instant now, const Unheard& unheard, const wire::Req& req) {
  const MadAddress& from = unheard.from;
  const wire::CmMessage& message = unheard.message;
  if (ConnectionEntry* const known = connections_.find_by_peer(req.local_ca_guid, req.local_communication_id)) {
    if (known->connection.path().destination != from.remote) return Reason::cm_address;
    return take_step(*known, known->connection.on_message(now, message), &message.body);
  }
  if (ConnectionEntry* const stale = find_stale(from, req.local_ca_guid, req.local_qpn)) {
    end_stale(now, *stale);
    return refuse(from, message, RejectReason::stale_connection, Reason::cm_stale);
  }
  const std::variant<Request, Reason> read = read_request(from, req.service_id, req.private_data);
  if (const Reason* const reason = std::get_if<Reason>(&read))
    return refuse(from, message, RejectReason::consumer_reject, *reason);
  Request request = std::get<Request>(read);
  request.path.flow_label = req.primary.flow_label;
  request.path.traffic_class = req.primary.traffic_class;
  request.path.hop_limit = req.primary.hop_limit;
  request.path.partition_key = req.partition_key;
  request.path.mtu = req.path_mtu;
  request.path.rate = req.primary.packet_rate;
  request.path.service_level = req.primary.service_level;
  request.path.packet_lifetime = static_cast<uint8_t>(std::max(req.primary.local_ack_timeout, uint8_t{1}) - 1);

  const wire::CommunicationId local_id = new_communication_id();
  Connection connection = Connection::requested(rules(), local_id, request.path, message);
  Identifier* const listener = listener_for(request, connection.qp_type());
  if (!listener) {
    // A port with a listener, who does not want this one.
    const bool is_port_known = ports_.has_listener(request.space, request.local.port);
    if (!is_port_known && wait_for_listener(now, unheard)) return Reason::none;
    return refuse(from, message, is_port_known ? RejectReason::consumer_reject : RejectReason::invalid_service_id,
                  Reason::cm_no_listener);
  }
  // No answer: the request comes again.
  if (listener->waiting.size() >= listener->backlog) return Reason::cm_backlog;

  Identifier& id = add_request(*listener, request, connection.qp_type());
  id.communication = local_id;
  connections_.add(id.handle, std::move(connection));
  events_.push(listener->channel,
               {.type = EventType::connect_request,
                .id = id.handle,
                .context = listener->context,
                .listener = listener->handle,
                .connection = {.qpn = req.local_qpn,
                               .srq = req.srq,
                               .responder_resources = req.initiator_depth,
                               .initiator_depth = req.responder_resources,
                               .flow_control = req.end_to_end_flow_control,
                               .retry_count = req.retry_count,
                               .rnr_retry_count = req.rnr_retry_count},
                .private_data = PrivateData(std::span(req.private_data).subspan(wire::kRdmaIpCmHeaderSize)),
                .ece = req.ece});
  return Reason::none;
}

Reason Manager::hear(Instant now, const Unheard& unheard, const wire::SidrReq& req) {
  const MadAddress& from = unheard.from;
  const wire::CmMessage& message = unheard.message;
  if (const auto known = asked_.find({from.remote, req.request_id}); known != asked_.end()) {
    Resolution& resolution = resolutions_.at(known->second).first;
    return take_step(resolution, resolution.on_duplicate(), nullptr);
  }
  const auto answer = [&](wire::SidrStatus status, Reason reason) {
    const wire::SidrRep rep{.request_id = req.request_id, .status = status, .service_id = req.service_id};
    mads_.push_back({from, wire::emit_cm({message.transaction_id, rep})});
    return reason;
  };
  const std::variant<Request, Reason> read = read_request(from, req.service_id, req.private_data);
  if (const Reason* const reason = std::get_if<Reason>(&read)) return answer(wire::SidrStatus::rejected, *reason);
  Request request = std::get<Request>(read);
  request.path.packet_lifetime = configuration_.packet_lifetime;
  request.path.partition_key = req.partition_key;
  Identifier* const listener = listener_for(request, QpType::ud);
  if (!listener) {
    const bool is_port_known = ports_.has_listener(request.space, request.local.port);
    if (!is_port_known && wait_for_listener(now, unheard)) return Reason::none;
    return answer(is_port_known ? wire::SidrStatus::rejected : wire::SidrStatus::service_id_not_supported,
                  Reason::cm_no_listener);
  }
  if (listener->waiting.size() >= listener->backlog) return Reason::cm_backlog;

  Identifier& id = add_request(*listener, request, QpType::ud);
  id.communication = new_communication_id();
  resolutions_.insert({id.communication, {Resolution::asked(id.communication, request.path, message), id.handle}});
  asked_[{from.remote, req.request_id}] = id.communication;
  events_.push(listener->channel,
               {.type = EventType::connect_request,
                .id = id.handle,
                .context = listener->context,
                .listener = listener->handle,
                .private_data = PrivateData(std::span(req.private_data).subspan(wire::kRdmaIpCmHeaderSize))});
  return Reason::none;
}

std::variant<Manager::Request, Reason> Manager::read_request(const MadAddress& from, wire::ServiceId service,
                                                             std::span<const uint8_t> private_data) const {
  const auto parsed = wire::parse_rdma_ip_cm_header(private_data);
  if (const Reason* const reason = std::get_if<Reason>(&parsed)) return *reason;
  const auto& header = std::get<wire::RdmaIpCmHeader>(parsed);
  const Family family = header.ip_version == 4 ? Family::ipv4 : Family::ipv6;
  Request request{
      .local = {.family = family, .ip = header.destination_address, .port = static_cast<uint16_t>(service.value)},
      .remote = {.family = family, .ip = header.source_address, .port = header.source_port},
      .space = static_cast<PortSpace>(service.value >> 16 & 0xffff),
      .path = {.source = from.local, .destination = from.remote}};
  const HostAddress* const host = host_address(request.local);
  // Who it is from and for must be what the datagram itself says.
  if (request.local.ip != from.local || request.remote.ip != from.remote || !host || !has_device_)
    return Reason::cm_address;
  request.path.interface_index = host->interface_index;
  request.path.mtu = host->path_mtu;
  request.path.rate = host->rate;
  if (request.local.is_link_local()) request.local.scope_id = host->interface_index;
  if (request.remote.is_link_local()) request.remote.scope_id = host->interface_index;
  return request;
}

Identifier* Manager::listener_for(const Request& request, QpType qp_type) {
  const std::optional<IdHandle> found = ports_.listener(request.space, request.local);
  if (!found) return nullptr;
  Identifier& listener = ids_.at(*found);
  return listener.state == IdState::listening && listener.qp_type == qp_type ? &listener : nullptr;
}

Identifier& Manager::add_request(Identifier& listener, const Request& request, QpType qp_type) {
  const IdHandle handle{kManagersHandles | ++last_handle_};
  Identifier& id = add(listener.owner, handle, listener.channel, listener.space, qp_type, listener.context);
  listener.waiting.push_back(handle);
  id.state = IdState::connecting;
  id.source = request.local;
  id.destination = request.remote;
  id.interface_index = request.path.interface_index;
  id.path = request.path;
  id.listener = id.waits_at = listener.handle;
  id.accepted = false;
  return id;
}

Reason Manager::refuse(const MadAddress& from, const wire::CmMessage& message, RejectReason reason, Reason dropped) {
  wire::Rej rej{.reason = reason};
  if (const wire::Req* const req = std::get_if<wire::Req>(&message.body)) {
    rej.remote_communication_id = req->local_communication_id;
  } else if (const wire::Rep* const rep = std::get_if<wire::Rep>(&message.body)) {
    rej.local_communication_id = rep->remote_communication_id;
    rej.remote_communication_id = rep->local_communication_id;
    rej.message_rejected = wire::Answered::rep;
  }
  mads_.push_back({from, wire::emit_cm({message.transaction_id, rej})});
  return dropped;
}

// A connection of the peer that it must have forgotten. Who comes from elsewhere cannot speak for it.
ConnectionEntry* Manager::find_stale(const MadAddress& from, uint64_t remote_ca_guid, Qpn remote_qpn) {
  ConnectionEntry* const entry = connections_.find_stale(remote_ca_guid, remote_qpn);
  return entry && entry->connection.path().destination == from.remote ? entry : nullptr;
}

// 12.9.8.3.1.
void Manager::end_stale(Instant now, ConnectionEntry& stale) {
  if (stale.connection.state() == ConnectionState::established)
    take_step(stale, stale.connection.disconnect(now), nullptr);
}

// --- what names a connection ----------------------------------------------------------------------------------------

template <class Message>
Reason Manager::on(Instant now, const MadAddress& from, const wire::CmMessage& message, const Message& body) {
  ConnectionEntry* const entry = named_by(body);
  if (!entry) return on_unknown(from, message.transaction_id, body);
  if (entry->connection.path().destination != from.remote) return Reason::cm_address;
  if constexpr (std::is_same_v<Message, wire::Rep>) {
    const bool is_first = !entry->connection.knows_peer();
    if (ConnectionEntry* const stale = is_first ? find_stale(from, body.local_ca_guid, body.local_qpn) : nullptr) {
      end_stale(now, *stale);
      return refuse(from, message, RejectReason::stale_connection, Reason::cm_stale);
    }
  }
  return take_step(*entry, entry->connection.on_message(now, message), &message.body);
}

template <class Message>
Reason Manager::on_unknown(const MadAddress& from, uint64_t transaction_id, const Message& message) {
  if constexpr (std::is_same_v<Message, wire::Dreq>) {
    // Its DREP was lost, and the connection is forgotten here.
    const wire::Drep drep{message.remote_communication_id, message.local_communication_id};
    mads_.push_back({from, wire::emit_cm({transaction_id, drep})});
  }
  return Reason::cm_unknown;
}

// Who gives up a request that nobody has heard yet.
Reason Manager::on_unknown(const MadAddress& from, uint64_t, const wire::Rej& rej) {
  std::erase_if(unheard_, [&](const Unheard& unheard) {
    const wire::Req* const req = std::get_if<wire::Req>(&unheard.message.body);
    return req && unheard.from == from && req->local_communication_id == rej.local_communication_id;
  });
  return Reason::cm_unknown;
}

template <class Message>
ConnectionEntry* Manager::named_by(const Message& message) {
  ConnectionEntry* const entry = connections_.find(message.remote_communication_id);
  return entry && entry->connection.remote_id() == message.local_communication_id ? entry : nullptr;
}

// The first message of the peer: its ID is still to be learned. A later one must have it.
ConnectionEntry* Manager::named_by(const wire::Rep& rep) {
  ConnectionEntry* const entry = connections_.find(rep.remote_communication_id);
  const bool fits =
      entry && (!entry->connection.knows_peer() || entry->connection.remote_id() == rep.local_communication_id);
  return fits ? entry : nullptr;
}

ConnectionEntry* Manager::named_by(const wire::Mra& mra) {
  ConnectionEntry* const entry = connections_.find(mra.remote_communication_id);
  const bool fits = entry && (mra.message_mraed == wire::Answered::req ||
                              entry->connection.remote_id() == mra.local_communication_id);
  return fits ? entry : nullptr;
}

ConnectionEntry* Manager::named_by(const wire::Rej& rej) {
  if (rej.reason == RejectReason::timeout) {
    // Who gave up before it knew our ID names itself, by the GUID in the additional information.
    uint64_t guid = 0;
    for (size_t i = 0; i < sizeof guid; ++i) guid = guid << 8 | rej.additional_reject_info[i];
    return connections_.find_by_peer(guid, rej.local_communication_id);
  }
  ConnectionEntry* const entry = connections_.find(rej.remote_communication_id);
  const bool fits = entry && (rej.message_rejected == wire::Answered::req ||
                              entry->connection.remote_id() == rej.local_communication_id);
  return fits ? entry : nullptr;
}

Reason Manager::on(Instant, const MadAddress& from, const wire::CmMessage&, const wire::SidrRep& rep) {
  const auto found = resolutions_.find(rep.request_id);
  if (found == resolutions_.end()) return Reason::cm_unknown;
  Resolution& resolution = found->second.first;
  if (resolution.path().destination != from.remote) return Reason::cm_address;
  return take_step(resolution, resolution.on_answer(), &rep);
}

}  // namespace verbatim::cm
