// What programs do with connections, and with the resolution of service IDs.
#include <cerrno>

#include "cm/manager.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::cm {
namespace {

constexpr uint16_t kPermissiveLid = 0xffff;
constexpr uint8_t kMostRetries = 7;  // three bits

template <class Message>
constexpr size_t kPrivateDataSize = sizeof(Message::private_data);
template <class Request>
constexpr size_t kRequestPrivateDataSize = kPrivateDataSize<Request> - wire::kRdmaIpCmHeaderSize;

wire::ServiceId service_of(const Identifier& id) {
  return {uint64_t{static_cast<uint16_t>(id.space)} << 16 | id.destination.port};
}

// The addresses, then the program's bytes.
void put_request_private_data(const Identifier& id, const PrivateData& data, std::span<uint8_t> to) {
  const wire::RdmaIpCmHeader header{.ip_version = static_cast<uint8_t>(id.source.family == Family::ipv4 ? 4 : 6),
                                    .source_port = id.source.port,
                                    .source_address = id.source.ip,
                                    .destination_address = id.destination.ip};
  wire::emit_rdma_ip_cm_header(header, to.first<wire::kRdmaIpCmHeaderSize>());
  std::ranges::copy(data.bytes(), to.subspan(wire::kRdmaIpCmHeaderSize).begin());
}

// What messages have bits for.
Offer bounded(Offer offer) {
  ConnectParameters& parameters = offer.parameters;
  parameters.retry_count = std::min(parameters.retry_count, kMostRetries);
  parameters.rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries);
  parameters.qpn.value &= 0xffffff;
  offer.ece.vendor_id &= 0xffffff;
  return offer;
}

bool is_request(QpType qp_type) {
  return qp_type == QpType::rc || qp_type == QpType::uc || qp_type == QpType::xrc_send;
}

}  // namespace

ConnectionRules Manager::rules() const {
  return {.ca_guid = configuration_.ca_guid,
          .ca_ack_delay = configuration_.ca_ack_delay,
          .mra_service_timeout = configuration_.mra_service_timeout,
          .transaction_half = transaction_half_};
}

wire::CommunicationId Manager::new_communication_id() {
  do {
    ++last_communication_id_.value;
  } while (last_communication_id_.value == 0 || connections_.contains(last_communication_id_) ||
           resolutions_.contains(last_communication_id_));
  return last_communication_id_;
}

Status Manager::listen(Instant now, Owner owner, IdHandle handle, int backlog) {
  const Result<Identifier*> found = find_for(Command::listen, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  if (id.state == IdState::idle) {
    const Status bound = bind_source(id, Address::wildcard(Family::ipv4), {}, false);
    if (!bound.ok()) return bound;
  }
  if (const Status alone = ports_.listen(handle); !alone.ok()) return alone;
  const bool is_sensible = backlog > 0 && backlog < configuration_.max_backlog;
  id.backlog = static_cast<size_t>(is_sensible ? backlog : configuration_.max_backlog);
  id.state = IdState::listening;
  hear_again(now);
  return Status::success();
}

Status Manager::connect(Instant now, Owner owner, IdHandle handle, const Offer& wanted) {
  const Offer offer = bounded(wanted);
  const Result<Identifier*> found = find_for(Command::connect, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  if (id.is_for_datagrams()) return connect_datagram(now, id, offer);
  if (!is_request(id.qp_type) || offer.private_data.size() > kRequestPrivateDataSize<wire::Req>) return {EINVAL};
  id.communication = new_communication_id();
  const wire::Req req = request_of(id, offer);
  auto [connection, step] =
      Connection::request(rules(), now, *id.path, {own_transaction(rules(), id.communication), req});
  id.state = IdState::connecting;
  take_step(connections_.add(handle, std::move(connection)), step, nullptr);
  return Status::success();
}

wire::Req Manager::request_of(const Identifier& id, const Offer& offer) const {
  const ConnectParameters& parameters = offer.parameters;
  const Path& path = *id.path;
  wire::Req req{.local_communication_id = id.communication,
                .ece = offer.ece,
                .service_id = service_of(id),
                .local_ca_guid = configuration_.ca_guid,
                .local_qpn = parameters.qpn,
                .initiator_depth = parameters.initiator_depth,
                .remote_cm_response_timeout = configuration_.cm_response_timeout,
                .transport_service = id.qp_type == QpType::rc   ? wire::TransportService::rc
                                     : id.qp_type == QpType::uc ? wire::TransportService::uc
                                                                : wire::TransportService::extended,
                .end_to_end_flow_control = parameters.flow_control,
                .starting_psn = id.starting_psn,
                .local_cm_response_timeout = configuration_.cm_response_timeout,
                .partition_key = path.partition_key,
                .path_mtu = path.mtu,
                .max_cm_retries = configuration_.max_cm_retries,
                .primary = {.local_lid = kPermissiveLid,
                            .remote_lid = kPermissiveLid,
                            .local_gid = path.source,
                            .remote_gid = path.destination,
                            .flow_label = path.flow_label,
                            .packet_rate = path.rate,
                            .traffic_class = path.traffic_class,
                            .hop_limit = path.hop_limit,
                            .service_level = path.service_level,
                            .subnet_local = path.hop_limit <= 1,
                            .local_ack_timeout = local_ack_timeout(path.packet_lifetime, configuration_.ca_ack_delay)}};
  if (id.qp_type == QpType::xrc_send) {
    req.extended_transport = wire::ExtendedTransport::xrc;
  } else {
    req.responder_resources = parameters.responder_resources;
    req.retry_count = parameters.retry_count;
    req.rnr_retry_count = parameters.rnr_retry_count;
    req.srq = parameters.srq;
  }
  put_request_private_data(id, offer.private_data, req.private_data);
  return req;
}

Status Manager::connect_datagram(Instant now, Identifier& id, const Offer& offer) {
  if (offer.private_data.size() > kRequestPrivateDataSize<wire::SidrReq>) return {EINVAL};
  id.communication = new_communication_id();
  wire::SidrReq req{
      .request_id = id.communication, .partition_key = id.path->partition_key, .service_id = service_of(id)};
  put_request_private_data(id, offer.private_data, req.private_data);
  const auto [resolution, step] =
      Resolution::ask(now, *id.path, {own_transaction(rules(), id.communication), req},
                      iba_time(configuration_.cm_response_timeout), configuration_.max_cm_retries);
  id.state = IdState::connecting;
  auto& entry = resolutions_.insert({id.communication, {resolution, id.handle}}).first->second;
  take_step(entry.first, step, nullptr);
  return Status::success();
}

Status Manager::accept(Instant now, Owner owner, IdHandle handle, const Offer& wanted) {
  const Offer offer = bounded(wanted);
  const Result<Identifier*> found = find_for(Command::accept, owner, handle);
  if (!found.ok()) return found.status();
  Identifier& id = *found.value();
  if (const auto asked = resolutions_.find(id.communication); asked != resolutions_.end()) {
    if (offer.private_data.size() > kPrivateDataSize<wire::SidrRep>) return {EINVAL};
    wire::SidrRep rep{
        .ece = offer.ece, .qpn = offer.parameters.qpn, .q_key = offer.q_key != 0 ? offer.q_key : kUdpQKey};
    std::ranges::copy(offer.private_data.bytes(), rep.private_data.begin());
    const Result<ResolutionStep> step = asked->second.first.answer(rep);
    if (!step.ok()) return step.status();
    take_step(asked->second.first, step.value(), nullptr);
  } else {
    ConnectionEntry* const entry = connections_.find(id.communication);
    if (!entry || offer.private_data.size() > kPrivateDataSize<wire::Rep>) return {EINVAL};
    const Result<ConnectionStep> step =
        entry->connection.accept(now, {offer.parameters, id.starting_psn, offer.ece, offer.private_data});
    if (!step.ok()) return step.status();
    take_step(*entry, step.value(), nullptr);
  }
  id.accepted = true;
  return Status::success();
}

Status Manager::establish(Instant, Owner owner, IdHandle handle) {
  const Result<Identifier*> found = find_for(Command::establish, owner, handle);
  if (!found.ok()) return found.status();
  ConnectionEntry* const entry = connections_.find(found.value()->communication);
  if (!entry) return {EINVAL};
  const Result<ConnectionStep> step = entry->connection.establish();
  if (step.ok()) take_step(*entry, step.value(), nullptr);
  return step.status();
}

Status Manager::reject(Instant now, Owner owner, IdHandle handle, wire::RejectReason reason,
                       const PrivateData& private_data) {
  const Result<Identifier*> found = find_for(Command::reject, owner, handle);
  if (!found.ok()) return found.status();
  if (reason != wire::RejectReason::consumer_reject && reason != wire::RejectReason::vendor_option_not_supported)
    return {EINVAL};
  const Identifier& id = *found.value();
  if (const auto asked = resolutions_.find(id.communication); asked != resolutions_.end()) {
    if (private_data.size() > kPrivateDataSize<wire::SidrRep>) return {EINVAL};
    wire::SidrRep rep{.status = wire::SidrStatus::rejected};
    std::ranges::copy(private_data.bytes(), rep.private_data.begin());
    const Result<ResolutionStep> step = asked->second.first.answer(rep);
    if (step.ok()) take_step(asked->second.first, step.value(), nullptr);
    return step.status();
  }
  ConnectionEntry* const entry = connections_.find(id.communication);
  if (!entry || private_data.size() > kPrivateDataSize<wire::Rej>) return {EINVAL};
  const Result<ConnectionStep> step = entry->connection.reject(now, reason, private_data);
  if (step.ok()) take_step(*entry, step.value(), nullptr);
  return step.status();
}

Status Manager::disconnect(Instant now, Owner owner, IdHandle handle) {
  const Result<Identifier*> found = find_for(Command::disconnect, owner, handle);
  if (!found.ok()) return found.status();
  if (ConnectionEntry* const entry = connections_.find(found.value()->communication))
    take_step(*entry, entry->connection.disconnect(now), nullptr);
  return Status::success();
}

Status Manager::notify_established(Instant, Owner owner, IdHandle handle) {
  const Result<Identifier*> found = find_for(Command::notify_established, owner, handle);
  if (!found.ok()) return found.status();
  ConnectionEntry* const entry = connections_.find(found.value()->communication);
  if (!entry) return {EINVAL};
  const Result<ConnectionStep> step = entry->connection.notify_established();
  if (step.ok()) take_step(*entry, step.value(), nullptr);
  return step.status();
}

void Manager::part_from_connection(Instant now, Identifier& id) {
  ConnectionEntry* const entry = connections_.find(id.communication);
  if (!entry) return;
  entry->id = {};
  take_step(*entry, entry->connection.abandon(now), nullptr);
}

void Manager::part_from_resolution(Identifier& id) {
  const auto found = resolutions_.find(id.communication);
  if (found == resolutions_.end()) return;
  Resolution& resolution = found->second.first;
  const Result<ResolutionStep> refusal = resolution.answer({.status = wire::SidrStatus::rejected});
  if (refusal.ok()) take_step(resolution, refusal.value(), nullptr);
  asked_.erase({resolution.path().destination, resolution.request_id()});
  resolution_deadlines_.clear(id.communication);
  resolutions_.erase(found);
}

}  // namespace verbatim::cm
