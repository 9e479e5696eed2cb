// The fields of commands, of their answers and of what stands in them, once for reading and writing (value_stream.h),
// with what a value must be. What is only wrong for the manager is not looked at here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "agent/cm_commands.h"
#include "agent/value_stream.h"

namespace verbatim::agent {

// Accepts a value to be read into, or one that is only looked at.
template <class T, class Value>
concept Either = std::is_same_v<std::remove_const_t<T>, Value>;

template <class T, class... Values>
concept EitherOf = (Either<T, Values> || ...);

template <class Stream, class Empty>
requires std::is_empty_v<Empty>
void fields(Stream&, Empty&) {}

// --- numbers of their own types ---

template <class Stream, EitherOf<cm::IdHandle, cm::Channel, cm::MembershipHandle, Qpn, Psn> Number>
void fields(Stream& stream, Number& number) {
  stream(number.value);
}

template <class Stream, Either<Gid> Value>
void fields(Stream& stream, Value& gid) {
  stream(gid.bytes);
}

// --- what stands in commands and answers ---

template <class Stream, Either<cm::Address> Value>
void fields(Stream& stream, Value& address) {
  stream.enumeration(address.family, cm::Family::ipv6);
  stream(address.ip, address.port, address.scope_id);
  stream.require(address.family != cm::Family::ipv4 || address.ip.is_ipv4_mapped());
}

template <class Stream, Either<cm::Path> Value>
void fields(Stream& stream, Value& path) {
  stream(path.source, path.destination, path.interface_index, path.flow_label, path.traffic_class, path.hop_limit,
         path.partition_key, path.mtu, path.rate, path.packet_lifetime, path.service_level);
}

template <class Stream, Either<cm::ConnectParameters> Value>
void fields(Stream& stream, Value& parameters) {
  stream(parameters.qpn, parameters.srq, parameters.responder_resources, parameters.initiator_depth,
         parameters.flow_control, parameters.retry_count, parameters.rnr_retry_count);
}

template <class Stream, Either<cm::DatagramTarget> Value>
void fields(Stream& stream, Value& target) {
  stream(target.path, target.qpn, target.q_key);
}

template <class Stream, Either<cm::QpAttributes> Value>
void fields(Stream& stream, Value& qp) {
  stream(qp.path, qp.local_qpn, qp.remote_qpn, qp.receive_psn, qp.send_psn, qp.max_dest_rd_atomic, qp.max_rd_atomic,
         qp.timeout, qp.retry_count, qp.rnr_retry, qp.remote_srq);
}

template <class Stream, Either<cm::Ece> Value>
void fields(Stream& stream, Value& ece) {
  stream(ece.vendor_id, ece.options);
}

inline void fields(ValueWriter& stream, const cm::PrivateData& data) {
  stream(static_cast<uint16_t>(data.size()));
  stream.bytes(data.bytes());
}

inline void fields(ValueReader& stream, cm::PrivateData& data) {
  uint16_t size = 0;
  stream(size);
  stream.require(size <= cm::PrivateData::kMost);
  data = cm::PrivateData(stream.bytes(size));
}

template <class Stream, Either<cm::Offer> Value>
void fields(Stream& stream, Value& offer) {
  stream(offer.parameters, offer.private_data, offer.ece, offer.q_key);
}

template <class Stream, Either<cm::Resolve> Value>
void fields(Stream& stream, Value& what) {
  constexpr Duration kLongest = Duration::milliseconds(int64_t{1} << 31);
  stream(what.source, what.destination, what.timeout.ns, what.privileged);
  stream.require(what.timeout >= Duration{} && what.timeout <= kLongest);
}

template <class Stream, Either<cm::PortSpace> Value>
void port_space(Stream& stream, Value& space) {
  using enum cm::PortSpace;
  stream.one_of(space, {ipoib, tcp, udp, ib});
}

// --- commands ---

template <class Stream, Either<commands::Create> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.channel);
  port_space(stream, command.space);
  stream.enumeration(command.qp_type, cm::QpType::xrc_receive);
  stream(command.context);
}

template <class Stream, Either<commands::Destroy> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.channel, command.received);
}

template <class Stream, Either<commands::Migrate> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.channel, command.received, command.to);
}

template <class Stream, Either<commands::SetContext> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.context);
}

template <class Stream, EitherOf<commands::Query, commands::ResolveRoute, commands::TakeRequest, commands::Establish,
                                 commands::Disconnect, commands::NotifyEstablished>
                            Value>
void fields(Stream& stream, Value& command) {
  stream(command.id);
}

template <class Stream, Either<commands::SetTos> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.tos);
}

template <class Stream, Either<commands::SetAckTimeout> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.ack_timeout);
}

template <class Stream, Either<commands::SetReuseAddress> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.reuse);
}

template <class Stream, Either<commands::SetFamilyOnly> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.only);
}

template <class Stream, Either<commands::SetPath> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.path);
}

template <class Stream, Either<commands::Bind> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.source, command.privileged);
}

template <class Stream, Either<commands::ResolveAddress> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.what);
}

template <class Stream, Either<commands::Listen> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.backlog);
}

template <class Stream, EitherOf<commands::Connect, commands::Accept> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.offer);
}

template <class Stream, Either<commands::Reject> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id);
  stream.enumeration(command.reason, wire::RejectReason{0xffff});
  stream(command.private_data);
}

template <class Stream, Either<commands::Join> Value>
void fields(Stream& stream, Value& command) {
  stream(command.id, command.group, command.context);
}

template <class Stream, Either<commands::Leave> Value>
void fields(Stream& stream, Value& command) {
  stream(command.membership, command.channel, command.received);
}

// --- answers ---

template <class Stream, Either<commands::Failure> Value>
void fields(Stream& stream, Value& failure) {
  stream(failure.error);
  stream.require(failure.error > 0);
}

template <class Stream, Either<cm::IdView> Value>
void fields(Stream& stream, Value& view) {
  stream.enumeration(view.state, cm::kLastIdState);
  stream(view.channel);
  port_space(stream, view.space);
  stream.enumeration(view.qp_type, cm::QpType::xrc_receive);
  stream(view.source, view.destination, view.has_device, view.path, view.qp, view.knows_peer, view.ack_timeout,
         view.tos);
}

template <class Stream, Either<commands::Ended> Value>
void fields(Stream& stream, Value& ended) {
  stream(ended.events);
}

// --- events ---

template <class Stream, Either<cm::Event> Value>
void fields(Stream& stream, Value& event) {
  stream.enumeration(event.type, cm::EventType::timewait_exit);
  stream(event.id, event.context, event.listener, event.status, event.connection, event.datagram, event.private_data,
         event.ece, event.membership);
}

template <class Stream, Either<commands::Taken> Value>
void fields(Stream& stream, Value& taken) {
  stream(taken.event, taken.view);
}

}  // namespace verbatim::agent
