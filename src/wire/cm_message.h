// The messages of communication management (IBTA volume 1, chapter 12; the fields of ECE: release 1.5), as values.
//
//   bytes --parse_cm()--> CmMessage or a Reason        CmMessage --emit_cm()--> bytes        text(): a line for a
//   person
//
// Fields have the specification's names. Private data has the fixed length of its message: who has less to say pads it
// with zeros. Reserved bits are sent as zero and not looked at. Plain values, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/reason.h"
#include "base/types.h"

namespace verbatim::wire {

inline constexpr size_t kMadSize = 256;
using Mad = std::array<uint8_t, kMadSize>;

// What a communication manager calls a connection, or the resolution of a service ID. 0 is none.
struct CommunicationId {
  uint32_t value = 0;
  auto operator<=>(const CommunicationId&) const = default;
};

struct ServiceId {
  uint64_t value = 0;
  auto operator<=>(const ServiceId&) const = default;
};

// Enhanced connection establishment: whose options (24 bits), and which.
struct Ece {
  uint32_t vendor_id = 0;
  uint32_t options = 0;
  bool operator==(const Ece&) const = default;
};

enum class TransportService : uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };
enum class ExtendedTransport : uint8_t { none = 0, xrc = 1 };

// Which message a REJ or an MRA answers (12.6.6, 12.6.7).
enum class Answered : uint8_t { req = 0, rep = 1, other = 2 };

// 12.6.7.2. Any number may come; these are the ones that something here is decided by.
enum class RejectReason : uint16_t {
  timeout = 4,
  invalid_service_id = 8,
  stale_connection = 10,
  consumer_reject = 28,
  vendor_option_not_supported = 35,
};

// 12.11.2.
enum class SidrStatus : uint8_t { valid = 0, service_id_not_supported = 1, rejected = 2 };

// 12.8.2.
enum class ApStatus : uint8_t { loaded = 0, not_supported = 2 };

// A path as REQ has two of them, seen from the sender.
struct RequestPath {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local_gid;
  Gid remote_gid;
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;
  bool operator==(const RequestPath&) const = default;
};

struct Req {
  static constexpr uint16_t kAttribute = 0x10;
  CommunicationId local_communication_id;
  Ece ece;
  ServiceId service_id;
  uint64_t local_ca_guid = 0;
  uint32_t local_q_key = 0;
  Qpn local_qpn;
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;
  uint8_t remote_cm_response_timeout = 0;
  TransportService transport_service = TransportService::rc;
  bool end_to_end_flow_control = false;
  Psn starting_psn;  // where the receiver of the REQ shall begin to send
  uint8_t local_cm_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t partition_key = 0;
  uint8_t path_mtu = 0;
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  ExtendedTransport extended_transport = ExtendedTransport::none;
  RequestPath primary;
  RequestPath alternate;
  bool suggested_alternate_path = false;
  std::array<uint8_t, 92> private_data{};
  bool operator==(const Req&) const = default;
};

struct Mra {
  static constexpr uint16_t kAttribute = 0x11;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  Answered message_mraed = Answered::req;
  uint8_t service_timeout = 0;
  std::array<uint8_t, 222> private_data{};
  bool operator==(const Mra&) const = default;
};

struct Rej {
  static constexpr uint16_t kAttribute = 0x12;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  Answered message_rejected = Answered::req;
  uint8_t reject_info_length = 0;  // of additional_reject_info
  RejectReason reason{};
  std::array<uint8_t, 72> additional_reject_info{};
  std::array<uint8_t, 148> private_data{};
  bool operator==(const Rej&) const = default;
};

struct Rep {
  static constexpr uint16_t kAttribute = 0x13;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  uint32_t local_q_key = 0;
  Qpn local_qpn;
  Ece ece;
  uint32_t local_ee_context = 0;
  Psn starting_psn;  // where the receiver of the REP shall begin to send
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover_accepted = 0;
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t local_ca_guid = 0;
  std::array<uint8_t, 196> private_data{};
  bool operator==(const Rep&) const = default;
};

struct Rtu {
  static constexpr uint16_t kAttribute = 0x14;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  std::array<uint8_t, 224> private_data{};
  bool operator==(const Rtu&) const = default;
};

struct Dreq {
  static constexpr uint16_t kAttribute = 0x15;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  Qpn remote_qpn;
  std::array<uint8_t, 220> private_data{};
  bool operator==(const Dreq&) const = default;
};

struct Drep {
  static constexpr uint16_t kAttribute = 0x16;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  std::array<uint8_t, 224> private_data{};
  bool operator==(const Drep&) const = default;
};

struct SidrReq {
  static constexpr uint16_t kAttribute = 0x17;
  CommunicationId request_id;
  uint16_t partition_key = 0;
  ServiceId service_id;
  std::array<uint8_t, 216> private_data{};
  bool operator==(const SidrReq&) const = default;
};

struct SidrRep {
  static constexpr uint16_t kAttribute = 0x18;
  CommunicationId request_id;
  SidrStatus status = SidrStatus::valid;
  uint8_t additional_info_length = 0;
  Ece ece;
  Qpn qpn;
  ServiceId service_id;
  uint32_t q_key = 0;
  std::array<uint8_t, 72> additional_info{};
  std::array<uint8_t, 136> private_data{};
  bool operator==(const SidrRep&) const = default;
};

// Alternate paths do not exist on RoCE: a LAP is known for what it is, so that it can be refused with an APR.
struct Lap {
  static constexpr uint16_t kAttribute = 0x19;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  Qpn remote_qpn;
  uint8_t remote_cm_response_timeout = 0;
  uint16_t alternate_local_lid = 0;
  uint16_t alternate_remote_lid = 0;
  Gid alternate_local_gid;
  Gid alternate_remote_gid;
  uint32_t alternate_flow_label = 0;
  uint8_t alternate_traffic_class = 0;
  uint8_t alternate_hop_limit = 0;
  uint8_t alternate_packet_rate = 0;
  uint8_t alternate_service_level = 0;
  bool alternate_subnet_local = false;
  uint8_t alternate_local_ack_timeout = 0;
  std::array<uint8_t, 168> private_data{};
  bool operator==(const Lap&) const = default;
};

struct Apr {
  static constexpr uint16_t kAttribute = 0x1a;
  CommunicationId local_communication_id;
  CommunicationId remote_communication_id;
  uint8_t additional_info_length = 0;
  ApStatus ap_status = ApStatus::loaded;
  std::array<uint8_t, 72> additional_info{};
  std::array<uint8_t, 148> private_data{};
  bool operator==(const Apr&) const = default;
};

using CmBody = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

struct CmMessage {
  uint64_t transaction_id = 0;
  CmBody body;
  bool operator==(const CmMessage&) const = default;
};

// Anything may stand in `bytes`. The reasons: mad_length, mad_not_cm, mad_attribute, mad_field (a length of additional
// information beyond its room).
std::variant<CmMessage, Reason> parse_cm(std::span<const uint8_t> bytes);

// Each value must fit into its field; that is the caller's promise.
Mad emit_cm(const CmMessage& message);

// "REP transaction_id=0x2… local_qpn=0x11 …": what is zero is left out.
std::string text(const CmMessage& message);

}  // namespace verbatim::wire
