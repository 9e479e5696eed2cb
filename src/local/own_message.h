// What a message takes along of the sender's memory: the bytes themselves when they are few, else where the receiver
// can fetch them. Used on the stack while a message is posted, under a touch record.
#pragma once

#include <array>

#include "local/lane_pair.h"
#include "local/own_memory.h"

namespace verbatim::local {

enum class Advance;

class OwnMessage {
 public:
  // Checks the request's SGEs; false and the verdict when one is bad. Opcodes without data take none. `known` as for
  // locate().
  bool gather(const Adapter& adapter, const SendWork& work, PdId pd, KnownRegion& known, Verdict& verdict);
  // Puts these bytes before the message. Borrowed until post(); only for what fits the lane.
  void prepend(std::span<const uint8_t> bytes);
  // Completes `fields` and posts: posted, full, or failed and the verdict.
  Advance post(LanePair& lanes, RequestFields fields, const SendWork& work, const Awaiting& awaiting, Verdict& verdict);

  // Whether the receiver reads the sender's memory, which is then in use until the answer.
  bool is_fetched() const { return length_ > kLaneMessageBytes; }

 private:
  std::array<iovec, kMaxSges + 1> pieces_;
  std::array<Sge, kMaxSges> sges_;
  uint32_t count_ = 0;
  uint32_t first_ = 1;  // pieces_[0] is for what is prepended
  uint32_t prepended_ = 0;
  uint64_t length_ = 0;
};

}  // namespace verbatim::local
