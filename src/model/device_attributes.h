// What the device and its one port say of themselves, as plain values. The limits are promises both ways: what is
// below them works, what is above is refused. A capability that is not built is zero.
// Numbers with a meaning of their own (states, widths, flags) have their IBTA encoding, which is that of verbs.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/path_mtu.h"
#include "model/gid_table.h"

namespace verbatim::model {

inline constexpr std::string_view kDeviceName = "verbatim0";
inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr uint32_t kPort = 1;
inline constexpr uint16_t kDefaultPkey = 0xffff;

// Names of the numbers that the attributes hold. Source: IBTA specification 14.2.5.6 (PortInfo), 11.2.1.2.
inline constexpr uint8_t kNodeTypeChannelAdapter = 1;
inline constexpr uint8_t kTransportInfiniBand = 0;
inline constexpr uint8_t kPortActive = 4;
inline constexpr uint8_t kPhysicalLinkUp = 5;
inline constexpr uint8_t kLinkLayerEthernet = 2;
inline constexpr uint8_t kGrhRequired = 1;
inline constexpr uint64_t kDeviceTakesCurrentState = 1u << 7;
inline constexpr uint64_t kDeviceHasSystemImageGuid = 1u << 11;
inline constexpr uint64_t kDeviceSaysNotReady = 1u << 12;  // RNR NAK
inline constexpr uint32_t kPortHasIpBasedGids = 1u << 26;
inline constexpr uint64_t kDeviceHasWindows = 1u << 17;
inline constexpr uint64_t kDeviceHasXrc = 1u << 20;
inline constexpr uint64_t kDeviceHasWindowsOfType2B = 1u << 24;
// Beyond the 32 bits of ibv_device_attr; the kernel's names are IB_UVERBS_DEVICE_FLUSH_GLOBAL and so on.
inline constexpr uint64_t kDeviceFlushesToView = uint64_t{1} << 38;
inline constexpr uint64_t kDeviceWritesAtomically = uint64_t{1} << 40;
inline constexpr uint8_t kAtomicsWithProcessor = 2;

using verbatim::PathMtu;

// A link's rate as PortInfo encodes it: 1 lane is width 1, 2 are 16, 4 are 2, 8 are 4; speed is that of one lane.
struct LinkRate {
  uint8_t width = 1;
  uint8_t speed = 1;
  bool operator==(const LinkRate&) const = default;
};

// The encoding with the highest rate that is not above `mbps`; 1X at 2.5 Gb/s, the lowest there is, for a slower link
// and for one whose speed is not known (0), as Linux shows it for such an interface.
LinkRate link_rate(uint32_t mbps);

// What memory on demand is good for, by transport (verbs.h, ibv_odp_transport_cap_bits).
namespace on_demand {
inline constexpr uint32_t kSend = 1;
inline constexpr uint32_t kReceive = 2;
inline constexpr uint32_t kWrite = 4;
inline constexpr uint32_t kRead = 8;
inline constexpr uint32_t kAtomic = 16;
inline constexpr uint32_t kSharedReceive = 32;
}  // namespace on_demand

// A copy faults in what it needs, and so does an atomic, whoever executes it.
struct OnDemandPaging {
  bool supported = true;
  bool whole_address_space = true;
  uint32_t rc = on_demand::kSend | on_demand::kReceive | on_demand::kWrite | on_demand::kRead | on_demand::kAtomic |
                on_demand::kSharedReceive;
  uint32_t uc = on_demand::kSend | on_demand::kReceive | on_demand::kWrite;
  uint32_t ud = on_demand::kSend | on_demand::kReceive | on_demand::kSharedReceive;
  uint32_t xrc =
      on_demand::kSend | on_demand::kWrite | on_demand::kRead | on_demand::kAtomic | on_demand::kSharedReceive;
};

struct DeviceAttributes {
  std::string fw_ver{kVersion};
  uint64_t node_guid = 0;         // host byte order
  uint64_t sys_image_guid = 0;    // host byte order
  uint32_t vendor_id = 0x025642;  // locally administered (IEEE 802 clause 8), so nobody's
  uint32_t vendor_part_id = 1;
  uint32_t hw_ver = 0;
  uint8_t node_type = kNodeTypeChannelAdapter;
  uint8_t transport = kTransportInfiniBand;

  uint64_t max_mr_size = INT64_MAX;           // bytes
  uint64_t page_size_cap = ~uint64_t{0xfff};  // bit n: pages of 2^n bytes
  uint64_t device_cap_flags = kDeviceTakesCurrentState | kDeviceHasSystemImageGuid | kDeviceSaysNotReady |
                              kDeviceHasWindows | kDeviceHasXrc | kDeviceHasWindowsOfType2B | kDeviceFlushesToView |
                              kDeviceWritesAtomically;
  int max_qp = 65536;
  int max_qp_wr = 32768;
  int max_sge = 32;
  int max_sge_rd = 32;
  int max_cq = 65536;
  int max_cqe = 4194304;
  int max_mr = 524288;
  int max_pd = 65536;
  int max_qp_rd_atom = 128;
  int max_qp_init_rd_atom = 128;
  int max_res_rd_atom = max_qp * max_qp_rd_atom;
  uint8_t atomic_cap = kAtomicsWithProcessor;
  int max_mw = 262144;
  int max_mcast_grp = 4096;
  int max_mcast_qp_attach = 4096;
  int max_total_mcast_qp_attach = 4096;
  int max_ah = 65536;
  int max_srq = 65535;
  int max_srq_wr = 32768;
  int max_srq_sge = 32;
  OnDemandPaging on_demand_paging;
  uint16_t max_pkeys = 1;
  uint8_t local_ca_ack_delay = 15;  // 4.096 us * 2^n: 134 ms, a scheduler's worst rather than a NIC's
  uint8_t phys_port_cnt = 1;
  uint32_t max_inline_data = 1024;  // bytes; not in ibv_device_attr, but create_qp refuses more
  int num_comp_vectors = 1;
  uint64_t completion_timestamp_mask = ~uint64_t{0};
  uint64_t hca_core_clock = 1'000'000;  // kHz: a timestamp counts nanoseconds
  uint16_t max_cq_count = UINT16_MAX;   // completions per event, and microseconds, that moderation may ask for
  uint16_t max_cq_period = UINT16_MAX;
};

struct PortAttributes {
  uint8_t state = kPortActive;
  PathMtu max_mtu = PathMtu::bytes_4096;
  PathMtu active_mtu = PathMtu::bytes_1024;
  int gid_tbl_len = GidTable::kLength;
  uint32_t port_cap_flags = kPortHasIpBasedGids;
  uint32_t max_msg_sz = 0x80000000;  // bytes
  uint16_t pkey_tbl_len = 1;
  uint16_t lid = 0;  // an Ethernet port has none
  uint8_t max_vl_num = 1;
  LinkRate rate;
  uint8_t phys_state = kPhysicalLinkUp;
  uint8_t link_layer = kLinkLayerEthernet;
  uint8_t flags = kGrhRequired;
};

// The port over the interface of `entry`, the first of the GID table.
PortAttributes port_attributes(const GidEntry& entry);

// An EUI-64 for a device that no manufacturer numbered: locally administered, not a group, the same for the same
// `identity` in every process. identity: any bytes that name the host and the network namespace. Host byte order.
uint64_t guid_from(std::string_view identity);

}  // namespace verbatim::model
