// Address handles, and what makes them from a received datagram: ibv_create_ah(3), ibv_init_ah_from_wc(3).
#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "api/ibverbs/convert_attributes.h"
#include "api/ibverbs/convert_queue_pair.h"
#include "api/ibverbs/objects.h"
#include "api/ibverbs/out_of_memory.h"
#include "api/ibverbs/reply_path.h"
#include "base/export.h"
#include "host/host_interfaces.h"

using namespace verbatim;
using namespace verbatim::api;

namespace {

std::optional<uint8_t> index_of(const model::Device& device, const Gid& gid) {
  static_assert(model::GidTable::kLength - 1 <= UINT8_MAX, "an address handle names its GID by 8 bits");
  for (size_t index = 0; index < model::GidTable::kLength; ++index) {
    const std::optional<model::GidEntry> entry = device.gid_at(index);
    if (entry && entry->gid == gid) return static_cast<uint8_t>(index);
  }
  return std::nullopt;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  ContextObject& owner = object_of(pd->context);
  Result<std::unique_ptr<model::AddressHandle>> handle =
      model::AddressHandle::create(owner.device, *object_of(pd).impl, from_c(*attr));
  if (!handle.ok()) return fail(handle.error());
  auto object = std::make_unique<AhObject>();
  object->impl = handle.take();
  object->base = {.context = pd->context, .pd = pd};
  return &owner.ahs.add(std::move(object))->base;
}

}  // namespace

// 0, or -1 with errno: EINVAL for a port that is not there, a GRH that is none, or one that was not sent to us.
VERBATIM_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                                        ibv_ah_attr* ah_attr) {
  // How far an answer may go is not known from how far the question came.
  constexpr uint8_t kHopLimit = 0xff;
  errno = EINVAL;
  if (port_num != model::kPort) return -1;

  ibv_ah_attr result{};
  result.dlid = wc->slid;
  result.sl = wc->sl;
  result.src_path_bits = wc->dlid_path_bits;
  result.port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) != 0) {
    const auto path = reply_path(std::span<const uint8_t, 40>(reinterpret_cast<const uint8_t*>(grh), sizeof *grh));
    if (!path) return -1;
    const std::optional<uint8_t> index = index_of(object_of(context).device, path->receiver);
    if (!index) return -1;
    result.is_global = 1;
    result.grh = {.dgid = to_c(path->sender),
                  .flow_label = path->flow_label,
                  .sgid_index = *index,
                  .hop_limit = kHopLimit,
                  .traffic_class = path->traffic_class};
  }
  *ah_attr = result;
  return 0;
}

VERBATIM_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) { return or_no_memory<create_ah>(pd, attr); }

VERBATIM_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port_num) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

VERBATIM_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  object_of(ah->context).ahs.take(&object_of(ah));
  return 0;
}

// The link-layer address behind the destination, which is one of ours. 0; -1 with errno EINVAL for a source index that
// is not there; -EHOSTUNREACH. `vid`, if given: no VLAN.
VERBATIM_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t* vid) {
  constexpr uint16_t kNoVlan = 0xffff;
  ibv_gid own;
  if (const int error = ibv_query_gid(context, attr->port_num, attr->grh.sgid_index, &own); error != 0) return error;
  const Gid destination = from_c(attr->grh.dgid);
  const Result<std::vector<host::HostInterface>> interfaces = host::host_interfaces();
  if (!interfaces.ok()) return -interfaces.error();
  for (const host::HostInterface& interface : interfaces.value()) {
    if (std::ranges::find(interface.addresses, destination) == interface.addresses.end()) continue;
    static_assert(ETHERNET_LL_SIZE == std::tuple_size_v<decltype(interface.mac)>);
    std::ranges::copy(interface.mac, eth_mac);
    if (vid != nullptr) *vid = kNoVlan;
    return 0;
  }
  return -EHOSTUNREACH;
}
