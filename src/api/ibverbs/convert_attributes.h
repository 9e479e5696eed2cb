// The attributes of model/ as the structs of verbs.h. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstring>

#include "model/device_attributes.h"
#include "model/gid_table.h"

namespace verbatim::api {

ibv_device_attr to_c(const model::DeviceAttributes& attributes);
// Beyond ibv_device_attr: completion timestamps and moderation. The rest is zero: not built, so not there.
ibv_device_attr_ex to_c_extended(const model::DeviceAttributes& attributes);
ibv_port_attr to_c(const model::PortAttributes& attributes);
ibv_gid to_c(const Gid& gid);
Gid from_c(const ibv_gid& gid);
ibv_gid_entry to_c(const model::GidEntry& entry, uint32_t index);

// Writes `value` to a struct of which the caller, built with an older or a newer header, knows `size` bytes: what both
// know, and zero for what only the caller does.
template <class Struct>
void copy_to_caller(void* to, size_t size, const Struct& value) {
  std::memset(to, 0, size);
  std::memcpy(to, &value, size < sizeof value ? size : sizeof value);
}

}  // namespace verbatim::api
