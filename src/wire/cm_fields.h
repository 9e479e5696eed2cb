// Tables 106 to 120 of IBTA chapter 12: the fields of each message, in their order, with their widths in bits. One list
// serves reading, writing, printing and counting (bit_stream.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "wire/cm_message.h"

namespace verbatim::wire {

// Accepts a message to be read into, or one that is only looked at.
template <class T, class Message>
concept Either = std::is_same_v<std::remove_const_t<T>, Message>;

// A 24-bit number whose bytes stand where older releases had reserved ones, apart from each other.
struct VendorIdParts {
  uint8_t high = 0, middle = 0, low = 0;
  explicit constexpr VendorIdParts(uint32_t id)
      : high(static_cast<uint8_t>(id >> 16)), middle(static_cast<uint8_t>(id >> 8)), low(static_cast<uint8_t>(id)) {}
  constexpr uint32_t whole() const { return uint32_t{high} << 16 | uint32_t{middle} << 8 | low; }
};

template <class Stream, Either<RequestPath> Path>
constexpr void path_fields(Stream& stream, Path& path) {
  stream.field("local_lid", 16, path.local_lid);
  stream.field("remote_lid", 16, path.remote_lid);
  stream.field("local_gid", path.local_gid);
  stream.field("remote_gid", path.remote_gid);
  stream.field("flow_label", 20, path.flow_label);
  stream.reserved(6);
  stream.field("packet_rate", 6, path.packet_rate);
  stream.field("traffic_class", 8, path.traffic_class);
  stream.field("hop_limit", 8, path.hop_limit);
  stream.field("service_level", 4, path.service_level);
  stream.field("subnet_local", 1, path.subnet_local);
  stream.reserved(3);
  stream.field("local_ack_timeout", 5, path.local_ack_timeout);
}

template <class Stream, Either<Req> Message>
constexpr void fields(Stream& stream, Message& req) {
  stream.field("local_communication_id", 32, req.local_communication_id);
  stream.reserved(8);
  stream.field("vendor_id", 24, req.ece.vendor_id);
  stream.field("service_id", 64, req.service_id);
  stream.field("local_ca_guid", 64, req.local_ca_guid);
  stream.reserved(32);
  stream.field("local_q_key", 32, req.local_q_key);
  stream.field("local_qpn", 24, req.local_qpn);
  stream.field("responder_resources", 8, req.responder_resources);
  stream.field("local_eecn", 24, req.local_eecn);
  stream.field("initiator_depth", 8, req.initiator_depth);
  stream.field("remote_eecn", 24, req.remote_eecn);
  stream.field("remote_cm_response_timeout", 5, req.remote_cm_response_timeout);
  stream.field("transport_service", 2, req.transport_service);
  stream.field("end_to_end_flow_control", 1, req.end_to_end_flow_control);
  stream.field("starting_psn", 24, req.starting_psn);
  stream.field("local_cm_response_timeout", 5, req.local_cm_response_timeout);
  stream.field("retry_count", 3, req.retry_count);
  stream.field("partition_key", 16, req.partition_key);
  stream.field("path_mtu", 4, req.path_mtu);
  stream.field("rdc_exists", 1, req.rdc_exists);
  stream.field("rnr_retry_count", 3, req.rnr_retry_count);
  stream.field("max_cm_retries", 4, req.max_cm_retries);
  stream.field("srq", 1, req.srq);
  stream.field("extended_transport", 3, req.extended_transport);
  path_fields(stream, req.primary);
  stream.reserved(3);
  path_fields(stream, req.alternate);
  stream.field("suggested_alternate_path", 1, req.suggested_alternate_path);
  stream.reserved(2);
  stream.field("private_data", req.private_data);
}

template <class Stream, Either<Mra> Message>
constexpr void fields(Stream& stream, Message& mra) {
  stream.field("local_communication_id", 32, mra.local_communication_id);
  stream.field("remote_communication_id", 32, mra.remote_communication_id);
  stream.field("message_mraed", 2, mra.message_mraed);
  stream.reserved(6);
  stream.field("service_timeout", 5, mra.service_timeout);
  stream.reserved(3);
  stream.field("private_data", mra.private_data);
}

template <class Stream, Either<Rej> Message>
constexpr void fields(Stream& stream, Message& rej) {
  stream.field("local_communication_id", 32, rej.local_communication_id);
  stream.field("remote_communication_id", 32, rej.remote_communication_id);
  stream.field("message_rejected", 2, rej.message_rejected);
  stream.reserved(6);
  stream.field("reject_info_length", 7, rej.reject_info_length);
  stream.reserved(1);
  stream.field("reason", 16, rej.reason);
  stream.field("additional_reject_info", rej.additional_reject_info);
  stream.field("private_data", rej.private_data);
}

template <class Stream, Either<Rep> Message>
constexpr void fields(Stream& stream, Message& rep) {
  VendorIdParts vendor_id(rep.ece.vendor_id);
  stream.field("local_communication_id", 32, rep.local_communication_id);
  stream.field("remote_communication_id", 32, rep.remote_communication_id);
  stream.field("local_q_key", 32, rep.local_q_key);
  stream.field("local_qpn", 24, rep.local_qpn);
  stream.field("vendor_id_high", 8, vendor_id.high);
  stream.field("local_ee_context", 24, rep.local_ee_context);
  stream.field("vendor_id_middle", 8, vendor_id.middle);
  stream.field("starting_psn", 24, rep.starting_psn);
  stream.field("vendor_id_low", 8, vendor_id.low);
  stream.field("responder_resources", 8, rep.responder_resources);
  stream.field("initiator_depth", 8, rep.initiator_depth);
  stream.field("target_ack_delay", 5, rep.target_ack_delay);
  stream.field("failover_accepted", 2, rep.failover_accepted);
  stream.field("end_to_end_flow_control", 1, rep.end_to_end_flow_control);
  stream.field("rnr_retry_count", 3, rep.rnr_retry_count);
  stream.field("srq", 1, rep.srq);
  stream.reserved(4);
  stream.field("local_ca_guid", 64, rep.local_ca_guid);
  stream.field("private_data", rep.private_data);
  if constexpr (Stream::kReads) rep.ece.vendor_id = vendor_id.whole();
}

template <class Stream, Either<Rtu> Message>
constexpr void fields(Stream& stream, Message& rtu) {
  stream.field("local_communication_id", 32, rtu.local_communication_id);
  stream.field("remote_communication_id", 32, rtu.remote_communication_id);
  stream.field("private_data", rtu.private_data);
}

template <class Stream, Either<Dreq> Message>
constexpr void fields(Stream& stream, Message& dreq) {
  stream.field("local_communication_id", 32, dreq.local_communication_id);
  stream.field("remote_communication_id", 32, dreq.remote_communication_id);
  stream.field("remote_qpn", 24, dreq.remote_qpn);
  stream.reserved(8);
  stream.field("private_data", dreq.private_data);
}

template <class Stream, Either<Drep> Message>
constexpr void fields(Stream& stream, Message& drep) {
  stream.field("local_communication_id", 32, drep.local_communication_id);
  stream.field("remote_communication_id", 32, drep.remote_communication_id);
  stream.field("private_data", drep.private_data);
}

template <class Stream, Either<SidrReq> Message>
constexpr void fields(Stream& stream, Message& req) {
  stream.field("request_id", 32, req.request_id);
  stream.field("partition_key", 16, req.partition_key);
  stream.reserved(16);
  stream.field("service_id", 64, req.service_id);
  stream.field("private_data", req.private_data);
}

template <class Stream, Either<SidrRep> Message>
constexpr void fields(Stream& stream, Message& rep) {
  VendorIdParts vendor_id(rep.ece.vendor_id);
  stream.field("request_id", 32, rep.request_id);
  stream.field("status", 8, rep.status);
  stream.field("additional_info_length", 8, rep.additional_info_length);
  stream.field("vendor_id_high", 8, vendor_id.high);
  stream.field("vendor_id_middle", 8, vendor_id.middle);
  stream.field("qpn", 24, rep.qpn);
  stream.field("vendor_id_low", 8, vendor_id.low);
  stream.field("service_id", 64, rep.service_id);
  stream.field("q_key", 32, rep.q_key);
  stream.field("additional_info", rep.additional_info);
  stream.field("private_data", rep.private_data);
  if constexpr (Stream::kReads) rep.ece.vendor_id = vendor_id.whole();
}

template <class Stream, Either<Lap> Message>
constexpr void fields(Stream& stream, Message& lap) {
  stream.field("local_communication_id", 32, lap.local_communication_id);
  stream.field("remote_communication_id", 32, lap.remote_communication_id);
  stream.reserved(32);
  stream.field("remote_qpn", 24, lap.remote_qpn);
  stream.field("remote_cm_response_timeout", 5, lap.remote_cm_response_timeout);
  stream.reserved(3 + 32);
  stream.field("alternate_local_lid", 16, lap.alternate_local_lid);
  stream.field("alternate_remote_lid", 16, lap.alternate_remote_lid);
  stream.field("alternate_local_gid", lap.alternate_local_gid);
  stream.field("alternate_remote_gid", lap.alternate_remote_gid);
  stream.field("alternate_flow_label", 20, lap.alternate_flow_label);
  stream.reserved(4);
  stream.field("alternate_traffic_class", 8, lap.alternate_traffic_class);
  stream.field("alternate_hop_limit", 8, lap.alternate_hop_limit);
  stream.reserved(2);
  stream.field("alternate_packet_rate", 6, lap.alternate_packet_rate);
  stream.field("alternate_service_level", 4, lap.alternate_service_level);
  stream.field("alternate_subnet_local", 1, lap.alternate_subnet_local);
  stream.reserved(3);
  stream.field("alternate_local_ack_timeout", 5, lap.alternate_local_ack_timeout);
  stream.reserved(3);
  stream.field("private_data", lap.private_data);
}

template <class Stream, Either<Apr> Message>
constexpr void fields(Stream& stream, Message& apr) {
  stream.field("local_communication_id", 32, apr.local_communication_id);
  stream.field("remote_communication_id", 32, apr.remote_communication_id);
  stream.field("additional_info_length", 8, apr.additional_info_length);
  stream.field("ap_status", 8, apr.ap_status);
  stream.reserved(16);
  stream.field("additional_info", apr.additional_info);
  stream.field("private_data", apr.private_data);
}

}  // namespace verbatim::wire
