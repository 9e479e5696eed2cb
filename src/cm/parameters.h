// What the two ends of a connection tell each other, and what the library needs to set up a queue pair. Plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "wire/cm_message.h"

namespace verbatim::cm {

using wire::Ece;

enum class QpType : uint8_t { rc, uc, ud, xrc_send, xrc_receive };

// A program's bytes in a message.
class PrivateData {
 public:
  static constexpr size_t kMost = 256;

  PrivateData() = default;
  explicit PrivateData(std::span<const uint8_t> bytes) : size_(static_cast<uint16_t>(bytes.size())) {
    assert(bytes.size() <= kMost);
    std::ranges::copy(bytes, bytes_.begin());
  }
  size_t size() const { return size_; }
  std::span<const uint8_t> bytes() const { return std::span(bytes_).first(size_); }
  bool operator==(const PrivateData& other) const { return std::ranges::equal(bytes(), other.bytes()); }

 private:
  std::array<uint8_t, kMost> bytes_{};
  uint16_t size_ = 0;
};

// A path record (IBTA 15.2.5.16), as far as it means something on RoCE.
struct Path {
  Gid source;
  Gid destination;
  uint32_t interface_index = 0;  // of the source
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint16_t partition_key = 0xffff;
  uint8_t mtu = 0;              // 1 is 256 bytes, 5 is 4096
  uint8_t rate = 0;             // as in a path record
  uint8_t packet_lifetime = 0;  // 4.096 us * 2^n
  uint8_t service_level = 0;
  bool operator==(const Path&) const = default;
};

// struct rdma_conn_param. In an event: as the receiver of the event sees it, so that its responder_resources is what
// the sender called initiator_depth, and qpn the sender's.
struct ConnectParameters {
  Qpn qpn;
  bool srq = false;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  bool flow_control = false;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  bool operator==(const ConnectParameters&) const = default;
};

// Where datagrams go: struct rdma_ud_param.
struct DatagramTarget {
  Path path;
  Qpn qpn;
  uint32_t q_key = 0;
  bool operator==(const DatagramTarget&) const = default;
};

// What rdma_init_qp_attr(3) and the library's own transitions need to lead a queue pair to RTR and RTS. Numbers are
// those of ibv_qp_attr.
struct QpAttributes {
  Path path;
  Qpn local_qpn;
  Qpn remote_qpn;
  Psn receive_psn;  // rq_psn: what we told the peer to begin with
  Psn send_psn;     // sq_psn: what the peer told us
  uint8_t max_dest_rd_atomic = 0;
  uint8_t max_rd_atomic = 0;
  uint8_t timeout = 0;  // local ACK timeout
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  bool remote_srq = false;
  bool operator==(const QpAttributes&) const = default;
};

}  // namespace verbatim::cm
