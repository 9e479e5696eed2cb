#include "devices.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "libraries.h"

// The header turns these names into inline helpers; here the exported functions are meant.
#undef ibv_query_port

namespace verbatim::tool {
namespace {

// The verbs used here, looked up by name: the tool itself links no libibverbs.
struct Verbs {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_get_device_guid) get_device_guid = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  int (*query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*) = nullptr;
  decltype(&::ibv_port_state_str) port_state_str = nullptr;
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;
};

template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function) fmt::print(stderr, "verbatim: {}\n", ::dlerror());
  return function != nullptr;
}

bool load(Verbs& verbs) {
  const std::string file = library_folder() / "libibverbs.so.1";
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fmt::print(stderr, "verbatim: {}\n", ::dlerror());
    return false;
  }
  return bind(library, "ibv_get_device_list", verbs.get_device_list) &&
         bind(library, "ibv_free_device_list", verbs.free_device_list) &&
         bind(library, "ibv_get_device_name", verbs.get_device_name) &&
         bind(library, "ibv_get_device_guid", verbs.get_device_guid) &&
         bind(library, "ibv_open_device", verbs.open_device) && bind(library, "ibv_close_device", verbs.close_device) &&
         bind(library, "ibv_query_device", verbs.query_device) && bind(library, "ibv_query_port", verbs.query_port) &&
         bind(library, "ibv_port_state_str", verbs.port_state_str) &&
         bind(library, "_ibv_query_gid_table", verbs.query_gid_table);
}

std::string guid_text(uint64_t network_order) {
  const uint64_t guid = be64toh(network_order);
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                     guid & 0xffff);
}

const char* link_text(uint8_t link_layer) {
  switch (link_layer) {
    case IBV_LINK_LAYER_ETHERNET:
      return "Ethernet";
    case IBV_LINK_LAYER_INFINIBAND:
      return "InfiniBand";
    default:
      return "unknown";
  }
}

const char* gid_type_text(uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return "IB";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    default:
      return "unknown";
  }
}

std::string interface_text(uint32_t index) {
  char name[IF_NAMESIZE];
  return index != 0 && ::if_indextoname(index, name) ? name : "-";
}

int complain(const char* device, const char* what, int error) {
  fmt::print(stderr, "verbatim: {}: {}: {}\n", device, what, std::strerror(error));
  return 1;
}

int print_port(const Verbs& verbs, ibv_context* context, const char* device, uint8_t number, size_t* gids) {
  ibv_port_attr port{};
  if (int error = verbs.query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&port)))
    return complain(device, "querying a port", error);
  *gids += static_cast<size_t>(port.gid_tbl_len);
  const std::string state = verbs.port_state_str(port.state);
  fmt::print("  port {}: {}, active MTU {}, {}\n", number, state, 128 << port.active_mtu, link_text(port.link_layer));
  return 0;
}

int print_gids(const Verbs& verbs, ibv_context* context, const char* device, size_t capacity) {
  std::vector<ibv_gid_entry> entries(capacity);
  const ssize_t found = verbs.query_gid_table(context, entries.data(), entries.size(), 0, sizeof entries[0]);
  if (found < 0) return complain(device, "querying the GID table", static_cast<int>(-found));
  fmt::print("  {:<5}{:<5}{:<9}{:<41}{}\n", "port", "GID", "type", "address", "interface");
  for (ssize_t i = 0; i < found; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    char address[INET6_ADDRSTRLEN];
    ::inet_ntop(AF_INET6, entry.gid.raw, address, sizeof address);
    fmt::print("  {:<5}{:<5}{:<9}{:<41}{}\n", entry.port_num, entry.gid_index, gid_type_text(entry.gid_type), address,
               interface_text(entry.ndev_ifindex));
  }
  return 0;
}

int print_device(const Verbs& verbs, ibv_device* device) {
  const char* name = verbs.get_device_name(device);
  const std::unique_ptr<ibv_context, decltype(verbs.close_device)> context(verbs.open_device(device),
                                                                           verbs.close_device);
  if (!context) return complain(name, "opening the device", errno);
  ibv_device_attr attributes{};
  if (int error = verbs.query_device(context.get(), &attributes)) return complain(name, "querying the device", error);

  fmt::print("{}  node GUID {}\n", name, guid_text(verbs.get_device_guid(device)));
  size_t gids = 0;
  int status = 0;
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port)
    status |= print_port(verbs, context.get(), name, port, &gids);
  return status | print_gids(verbs, context.get(), name, gids);
}

}  // namespace

int print_devices() {
  Verbs verbs;
  if (!load(verbs)) return 1;
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (!list || count == 0) {
    fmt::print(stderr, "verbatim: no device: {}\n", std::strerror(list ? ENODEV : errno));
    return 1;
  }
  int status = 0;
  for (int i = 0; i < count; ++i) status |= print_device(verbs, list[i]);
  verbs.free_device_list(list);
  return status;
}

}  // namespace verbatim::tool
