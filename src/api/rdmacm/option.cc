// rdma_set_option(3).
#include <endian.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "api/rdmacm/identifiers.h"
#include "base/export.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

template <class Value>
std::optional<Value> value_of(const void* value, size_t length) {
  if (!value || length != sizeof(Value)) return std::nullopt;
  Value read;
  std::memcpy(&read, value, sizeof read);
  return read;
}

// It is in the view of the queue pair.
Status set_ack_timeout(IdObject& id, uint8_t ack_timeout) {
  const Status set = run(id, commands::SetAckTimeout{id.handle, ack_timeout});
  return set.ok() ? refresh(id) : set;
}

Status set_id_option(IdObject& id, int name, const void* value, size_t length) {
  const std::optional<uint8_t> byte = value_of<uint8_t>(value, length);
  const std::optional<int> number = value_of<int>(value, length);
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      return byte ? run(id, commands::SetTos{id.handle, *byte}) : Status{EINVAL};
    case RDMA_OPTION_ID_REUSEADDR:
      return number ? run(id, commands::SetReuseAddress{id.handle, *number != 0}) : Status{EINVAL};
    case RDMA_OPTION_ID_AFONLY:
      return number ? run(id, commands::SetFamilyOnly{id.handle, *number != 0}) : Status{EINVAL};
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return byte ? set_ack_timeout(id, *byte) : Status{EINVAL};
    default:
      return {ENOSYS};
  }
}

// IBTA 15.2.5.16; the selectors stand above the numbers.
cm::Path path_of(const ibv_path_record& record) {
  const uint32_t flow_label_hop_limit = be32toh(record.flowlabel_hoplimit);
  constexpr uint8_t kNumber = 0x3f;
  return {.flow_label = flow_label_hop_limit >> 8 & 0xfffff,
          .traffic_class = record.tclass,
          .hop_limit = static_cast<uint8_t>(flow_label_hop_limit),
          .partition_key = be16toh(record.pkey),
          .mtu = static_cast<uint8_t>(record.mtu & kNumber),
          .rate = static_cast<uint8_t>(record.rate & kNumber),
          .packet_lifetime = static_cast<uint8_t>(record.packetlifetime & kNumber),
          .service_level = static_cast<uint8_t>(be16toh(record.qosclass_sl) & 0xf)};
}

// One that serves for both directions and for the messages of the connection manager too.
Status set_path(IdObject& id, const void* value, size_t length) {
  if (!value || length == 0 || length % sizeof(ibv_path_data) != 0) return {EINVAL};
  constexpr uint32_t kWanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
  const std::span paths(static_cast<const ibv_path_data*>(value), length / sizeof(ibv_path_data));
  const auto found = std::ranges::find(paths, kWanted, &ibv_path_data::flags);
  if (found == paths.end()) return {EINVAL};
  return run(id, commands::SetPath{id.handle, path_of(found->path)});
}

}  // namespace

VERBATIM_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int name, void* value, size_t length) {
  return answer([&]() -> Status {
    if (level == RDMA_OPTION_ID) return set_id_option(object_of(id), name, value, length);
    if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) return set_path(object_of(id), value, length);
    return {ENOSYS};
  });
}
