// The port's GID table: which address has which index, and what an index keeps meaning while the device is open.
// Pure data: addresses come in, no socket is opened and no clock is read. RoCE v2 entries only (IBTA annex 17).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"

namespace verbatim::model {

// What an interface is to the order of the table.
enum class InterfaceRole : uint8_t { ordinary, virtual_link, loopback };

// One interface that is up, with its addresses in the order the kernel lists them. Source: host/host_interfaces.
struct GidInterface {
  uint32_t ifindex = 0;
  uint32_t mtu = 0;         // bytes of an IP packet
  uint32_t speed_mbps = 0;  // 0: not known
  InterfaceRole role = InterfaceRole::ordinary;
  bool has_default_route = false;
  std::vector<Gid> gids;
};

struct GidEntry {
  Gid gid;                  // zero: nothing at this index
  uint32_t ifindex = 0;     // 0: derived from the node GUID, no interface behind it
  uint32_t mtu = 0;         // bytes of an IP packet on that interface
  uint32_t speed_mbps = 0;  // 0: not known
  bool empty() const { return gid.is_zero(); }
};

// fe80::/64 and the interface identifier of `node_guid` (RFC 4291 appendix A: the universal/local bit is inverted).
// node_guid: host byte order.
Gid link_local_gid(uint64_t node_guid);

class GidTable {
 public:
  // No longer than an address handle's 8-bit index reaches.
  static constexpr size_t kLength = 256;

  // What one update() did.
  struct Change {
    std::vector<uint32_t> indices;  // ascending; where the GID appeared or went
    size_t without_room = 0;        // addresses that found no index
  };

  // A table of no interfaces: its one entry is the link-local GID of `node_guid` (host byte order).
  explicit GidTable(uint64_t node_guid) : derived_(link_local_gid(node_guid)) { update({}); }
  GidTable(uint64_t node_guid, std::span<const GidInterface> interfaces) : derived_(link_local_gid(node_guid)) {
    update(interfaces);
  }

  // Makes the table hold exactly the addresses of `interfaces`. An address keeps its index, and one that comes back
  // gets it again; an address that went leaves a zero GID. New ones take indices never used before; only when there
  // are none left, the index that has been empty longest.
  Change update(std::span<const GidInterface> interfaces);

  // The entry at `index`; nullptr at or beyond kLength.
  const GidEntry* at(size_t index) const { return index < slots_.size() ? &slots_[index].entry : nullptr; }

  // The lowest index of `gid`. The zero GID is nowhere.
  std::optional<uint32_t> find(const Gid& gid) const;

  // Whether `gid` is an address of this host. The derived GID always is: a process that started when there was no
  // other address may still be using it.
  bool is_local(const Gid& gid) const { return !gid.is_zero() && (gid == derived_ || find(gid).has_value()); }

  // The first entry that is not empty: GID 0's while its interface is up.
  const GidEntry& first() const;

  // How many entries are not empty; at least 1.
  size_t count() const;

 private:
  // An index, its present entry, and the address it last stood for.
  struct Slot {
    GidEntry entry;
    Gid last_gid;
    uint32_t last_ifindex = 0;
    uint64_t emptied_at = 0;  // number of the update that emptied it
    bool used() const { return !last_gid.is_zero(); }
  };

  bool stands_for(const Slot& slot, const GidEntry& entry) const {
    return slot.last_gid == entry.gid && slot.last_ifindex == entry.ifindex;
  }
  Slot* slot_of(const GidEntry& entry);
  Slot* free_slot();

  Gid derived_;
  std::vector<Slot> slots_ = std::vector<Slot>(kLength);
  uint64_t updates_ = 0;
  bool derived_in_table_ = false;
};

}  // namespace verbatim::model
