#include "agent/slot_claim.h"

#include <sys/socket.h>

#include <cerrno>

namespace verbatim {
namespace {

constexpr uint16_t kSlots = kLastSlot - kFirstSlot + 1;

// Until this many draws have failed a free slot is found faster by luck than by walking.
constexpr int kDraws = 32;

Slot draw(std::mt19937_64& random) { return {std::uniform_int_distribution<uint16_t>(kFirstSlot, kLastSlot)(random)}; }

Slot after(Slot slot) { return {slot.value == kLastSlot ? kFirstSlot : static_cast<uint16_t>(slot.value + 1)}; }

Result<FileDescriptor> make_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status{errno};
  return socket;
}

Status bind_to(const FileDescriptor& socket, const AbstractName& name) {
  return {::bind(socket.get(), name.get(), name.length) == 0 ? 0 : errno};
}

}  // namespace

Result<SlotClaim> SlotClaim::claim_random(const AgentIdentity& identity, std::mt19937_64& random) {
  Result<FileDescriptor> socket = make_socket();
  if (!socket.ok()) return socket.status();
  Slot slot = draw(random);
  for (int attempt = 0; attempt < kDraws + kSlots; ++attempt) {
    const Status bound = bind_to(socket.value(), identity.slot_name(slot));
    if (bound.ok()) return SlotClaim(slot, socket.take());
    if (bound.error != EADDRINUSE) return bound;
    slot = attempt < kDraws ? draw(random) : after(slot);
  }
  return Status{ENOSPC};
}

Result<SlotClaim> SlotClaim::claim(const AgentIdentity& identity, Slot slot) {
  Result<FileDescriptor> socket = make_socket();
  if (!socket.ok()) return socket.status();
  const Status bound = bind_to(socket.value(), identity.slot_name(slot));
  if (!bound.ok()) return bound;
  return SlotClaim(slot, socket.take());
}

}  // namespace verbatim
