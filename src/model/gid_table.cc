#include "model/gid_table.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace verbatim::model {
namespace {

// Loopback carries any packet that a process on this host sends to another.
constexpr uint32_t kDerivedMtu = 65536;

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

// Within an interface: what reaches farthest with the least set-up first, so that GID 0 is a good default.
int rank_of_address(const Gid& gid) {
  if (gid.is_ipv4_mapped()) return 0;
  return is_link_local(gid) ? 2 : 1;
}

int rank_of_interface(const GidInterface& interface) {
  if (interface.role == InterfaceRole::loopback) return 3;
  if (interface.has_default_route) return 0;
  return interface.role == InterfaceRole::ordinary ? 1 : 2;
}

std::vector<GidEntry> in_table_order(std::span<const GidInterface> interfaces) {
  std::vector<const GidInterface*> order;
  for (const GidInterface& interface : interfaces) order.push_back(&interface);
  std::ranges::stable_sort(order, {}, [](const GidInterface* interface) {
    return std::tuple(rank_of_interface(*interface), interface->ifindex);
  });

  std::vector<GidEntry> entries;
  for (const GidInterface* interface : order) {
    std::vector<Gid> gids = interface->gids;
    std::ranges::stable_sort(gids, {}, rank_of_address);
    const size_t first_of_interface = entries.size();
    for (const Gid& gid : gids) {
      const bool seen = std::any_of(entries.begin() + static_cast<ptrdiff_t>(first_of_interface), entries.end(),
                                    [&](const GidEntry& entry) { return entry.gid == gid; });
      if (gid.is_zero() || seen) continue;
      entries.push_back({gid, interface->ifindex, interface->mtu, interface->speed_mbps});
    }
  }
  return entries;
}

}  // namespace

Gid link_local_gid(uint64_t node_guid) {
  constexpr uint64_t kUniversalLocalBit = uint64_t{0x02} << 56;
  const uint64_t identifier = node_guid ^ kUniversalLocalBit;
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  for (size_t i = 0; i < 8; ++i) gid.bytes[8 + i] = static_cast<uint8_t>(identifier >> (56 - 8 * i));
  return gid;
}

GidTable::Change GidTable::update(std::span<const GidInterface> interfaces) {
  ++updates_;
  std::vector<GidEntry> wanted = in_table_order(interfaces);
  // Once shown, the derived GID stays: queue pairs may be using it.
  derived_in_table_ = derived_in_table_ || wanted.empty();
  if (derived_in_table_) wanted.push_back({derived_, 0, kDerivedMtu, 0});

  std::vector<Gid> before;
  before.reserve(slots_.size());
  for (Slot& slot : slots_) {
    before.push_back(slot.entry.gid);
    const auto stays = [&](const GidEntry& entry) { return stands_for(slot, entry); };
    if (slot.entry.empty() || std::ranges::any_of(wanted, stays)) continue;
    slot.entry = {};
    slot.emptied_at = updates_;
  }

  // Those that come back first, so that no newcomer takes their index.
  std::vector<GidEntry> newcomers;
  for (const GidEntry& entry : wanted) {
    Slot* slot = slot_of(entry);
    if (slot != nullptr) {
      slot->entry = entry;
    } else {
      newcomers.push_back(entry);
    }
  }

  Change change;
  for (const GidEntry& entry : newcomers) {
    Slot* slot = free_slot();
    if (slot == nullptr) {
      ++change.without_room;
      continue;
    }
    *slot = {entry, entry.gid, entry.ifindex, 0};
  }

  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].entry.gid != before[i]) change.indices.push_back(i);
  }
  return change;
}

GidTable::Slot* GidTable::slot_of(const GidEntry& entry) {
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& slot) { return stands_for(slot, entry); });
  return slot == slots_.end() ? nullptr : &*slot;
}

GidTable::Slot* GidTable::free_slot() {
  Slot* longest_empty = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.used()) return &slot;
    if (!slot.entry.empty()) continue;
    if (longest_empty == nullptr || slot.emptied_at < longest_empty->emptied_at) longest_empty = &slot;
  }
  return longest_empty;
}

std::optional<uint32_t> GidTable::find(const Gid& gid) const {
  if (gid.is_zero()) return std::nullopt;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].entry.gid == gid) return i;
  }
  return std::nullopt;
}

const GidEntry& GidTable::first() const {
  const auto slot = std::ranges::find_if(slots_, [](const Slot& slot) { return !slot.entry.empty(); });
  assert(slot != slots_.end());
  return slot->entry;
}

size_t GidTable::count() const {
  return static_cast<size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return !slot.entry.empty(); }));
}

}  // namespace verbatim::model
