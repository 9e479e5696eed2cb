// A slot of QP numbers (base/types.h) that this process alone holds, as it holds the slot's name (name_claim.h).
#pragma once

#include <random>

#include "agent/identity.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/types.h"

namespace verbatim {

// Movable; the slot is given back at the end of its life. Thread-safe as a value.
class SlotClaim {
 public:
  // ENOSPC: every slot is taken. Otherwise why there is no socket.
  static Result<SlotClaim> claim_random(const AgentIdentity& identity, std::mt19937_64& random);
  // EADDRINUSE: taken.
  static Result<SlotClaim> claim(const AgentIdentity& identity, Slot slot);

  Slot slot() const { return slot_; }

 private:
  SlotClaim(Slot slot, FileDescriptor socket) : slot_(slot), socket_(std::move(socket)) {}

  Slot slot_;
  FileDescriptor socket_;
};

}  // namespace verbatim
