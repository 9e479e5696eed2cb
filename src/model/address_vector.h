// Where a queue pair's peer or a datagram's receiver is, as a program says it. A plain value, not checked.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace verbatim::model {

// As ibv_ah_attr; dgid in network order, flow label in host order.
struct AddressVector {
  bool is_global = false;
  Gid dgid;
  uint32_t flow_label = 0;
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  uint16_t dlid = 0;
  uint8_t service_level = 0;
  uint8_t source_path_bits = 0;
  uint8_t static_rate = 0;
  uint8_t port = 0;
};

}  // namespace verbatim::model
