#include "model/device_attributes.h"

#include <array>

namespace verbatim::model {
namespace {

struct RateRow {
  uint32_t mbps;
  LinkRate rate;
};

// Ascending; the speeds are SDR 1, DDR 2, QDR 4, EDR 32, HDR 64, NDR 128 and the widths those of LinkRate.
constexpr std::array kRates{
    RateRow{2500, {1, 1}},    RateRow{5000, {1, 2}},     RateRow{10000, {1, 4}},    RateRow{20000, {2, 2}},
    RateRow{25000, {1, 32}},  RateRow{40000, {2, 4}},    RateRow{50000, {1, 64}},   RateRow{100000, {2, 32}},
    RateRow{200000, {2, 64}}, RateRow{400000, {2, 128}}, RateRow{800000, {4, 128}},
};

constexpr uint64_t kLocallyAdministered = uint64_t{0x02} << 56;
constexpr uint64_t kGroup = uint64_t{0x01} << 56;

}  // namespace

LinkRate link_rate(uint32_t mbps) {
  LinkRate rate = kRates.front().rate;
  for (const RateRow& row : kRates) {
    if (row.mbps <= mbps) rate = row.rate;
  }
  return rate;
}

PortAttributes port_attributes(const GidEntry& entry) {
  PortAttributes port;
  port.active_mtu = largest_path_mtu(entry.mtu);
  port.rate = link_rate(entry.speed_mbps);
  return port;
}

uint64_t guid_from(std::string_view identity) {
  // FNV-1a spreads each byte, the multiply-and-shift rounds after it let every input bit reach every output bit.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : identity) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  return (hash | kLocallyAdministered) & ~kGroup;
}

}  // namespace verbatim::model
