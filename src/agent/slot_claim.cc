#include "agent/slot_claim.h"

#include <cerrno>

#include "agent/name_claim.h"

namespace verbatim {
namespace {

constexpr uint16_t kSlots = kLastSlot - kFirstSlot + 1;

// Until this many draws have failed a free slot is found faster by luck than by walking.
constexpr int kDraws = 32;

Slot draw(std::mt19937_64& random) { return {std::uniform_int_distribution<uint16_t>(kFirstSlot, kLastSlot)(random)}; }

Slot after(Slot slot) { return {slot.value == kLastSlot ? kFirstSlot : static_cast<uint16_t>(slot.value + 1)}; }

}  // namespace

Result<SlotClaim> SlotClaim::claim_random(const AgentIdentity& identity, std::mt19937_64& random) {
  Slot slot = draw(random);
  for (int attempt = 0; attempt < kDraws + kSlots; ++attempt) {
    Result<SlotClaim> claimed = claim(identity, slot);
    if (claimed.error() != EADDRINUSE) return claimed;
    slot = attempt < kDraws ? draw(random) : after(slot);
  }
  return Status{ENOSPC};
}

Result<SlotClaim> SlotClaim::claim(const AgentIdentity& identity, Slot slot) {
  Result<FileDescriptor> socket = claim_name(identity.slot_name(slot));
  if (!socket.ok()) return socket.status();
  return SlotClaim(slot, socket.take());
}

}  // namespace verbatim
