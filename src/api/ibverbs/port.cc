// The port and its tables: ibv_query_port(3), ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3),
// ibv_query_pkey(3), ibv_get_pkey_index(3).
#include "api/ibverbs/port.h"

#include <endian.h>

#include "api/ibverbs/convert_attributes.h"
#include "api/ibverbs/objects.h"
#include "base/export.h"

#undef ibv_query_port

using namespace verbatim;
using namespace verbatim::api;

namespace {

// ibv_port_attr as programs built before libibverbs 22 know it. The exported function serves them.
constexpr size_t kOldestPortAttributes = 48;
static_assert(offsetof(ibv_port_attr, port_cap_flags2) >= kOldestPortAttributes);

bool is_port(uint32_t number) { return number == model::kPort; }

// -1 with errno, for calls that return a count or nothing.
int minus_one(int error) {
  errno = error;
  return -1;
}

// EINVAL for a port or an index that is not there; an entry that may be empty.
Result<model::GidEntry> gid_entry(ibv_context* context, uint32_t port, uint32_t index) {
  if (!is_port(port)) return Status{EINVAL};
  const std::optional<model::GidEntry> entry = object_of(context).device.gid_at(index);
  if (!entry) return Status{EINVAL};
  return *entry;
}

}  // namespace

int verbatim::api::query_port(ibv_context* context, uint8_t port_num, ibv_port_attr* port_attr, size_t port_attr_len) {
  if (!is_port(port_num)) return EINVAL;
  copy_to_caller(port_attr, port_attr_len, to_c(object_of(context).device.port()));
  return 0;
}

VERBATIM_EXPORT int ibv_query_port(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* port_attr) {
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr), kOldestPortAttributes);
}

// An empty index is the zero GID: programs read the whole table and give up at the first error.
VERBATIM_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid) {
  const Result<model::GidEntry> entry = gid_entry(context, port_num, static_cast<uint32_t>(index));
  if (!entry.ok()) return minus_one(entry.error());
  *gid = to_c(entry.value().gid);
  return 0;
}

VERBATIM_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t gid_index, ibv_gid_entry* entry,
                                      uint32_t flags, size_t entry_size) {
  if (flags != 0 || entry_size == 0) return EINVAL;
  const Result<model::GidEntry> found = gid_entry(context, port_num, gid_index);
  if (!found.ok()) return found.error();
  if (found.value().empty()) return ENODATA;
  copy_to_caller(entry, entry_size, to_c(found.value(), gid_index));
  return 0;
}

VERBATIM_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                                             uint32_t flags, size_t entry_size) {
  if (flags != 0 || entry_size == 0) return -EINVAL;
  size_t count = 0;
  for (uint32_t index = 0; index < model::GidTable::kLength; ++index) {
    const std::optional<model::GidEntry> entry = object_of(context).device.gid_at(index);
    if (!entry || entry->empty()) continue;
    if (count == max_entries) return -EINVAL;
    copy_to_caller(reinterpret_cast<char*>(entries) + count * entry_size, entry_size, to_c(*entry, index));
    ++count;
  }
  return static_cast<ssize_t>(count);
}

// `type` counts as sysfs does: 0 InfiniBand or RoCE v1, 1 RoCE v2. An empty index is of the former, without error, as
// ibv_devinfo asks before it looks whether there is a GID.
VERBATIM_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index, int* type) {
  const Result<model::GidEntry> entry = gid_entry(context, port_num, index);
  if (!entry.ok()) return minus_one(entry.error());
  *type = entry.value().empty() ? 0 : 1;
  return 0;
}

VERBATIM_EXPORT int ibv_query_pkey(ibv_context*, uint8_t port_num, int index, __be16* pkey) {
  if (!is_port(port_num) || index != 0) return minus_one(EINVAL);
  *pkey = htobe16(model::kDefaultPkey);
  return 0;
}

VERBATIM_EXPORT int ibv_get_pkey_index(ibv_context*, uint8_t port_num, __be16 pkey) {
  if (!is_port(port_num) || be16toh(pkey) != model::kDefaultPkey) return minus_one(EINVAL);
  return 0;
}
