#include "local/lane_pair.h"

#include <cerrno>

#include "local/own_memory.h"

namespace verbatim::local {
namespace {

constexpr size_t kRequestWords = sizeof(RequestFields) / 8;
constexpr size_t kReplyWords = sizeof(ReplyFields) / 8;
// As many of the longest as one queue pair asks for at once: a READ then always gets on.
constexpr uint32_t kRoomForResponses = 8;

}  // namespace

std::span<const uint8_t> Request::payload() const {
  const uint32_t bytes = is_fetched() ? fields_.pieces * uint32_t{sizeof(Sge)} : fields_.length;
  if (fields_.flags & lane_flag::kShort) return {lane_.requests[position_ % kLaneRequests].data, bytes};
  return {lane_.payload + fields_.payload, bytes};
}

void Request::answer(const ReplyFields& reply) const {
  if (answered_) return;
  answered_ = true;
  lanes_.answer(reply);
}

LanePost Request::respond(std::span<const uint8_t> data, CopyFault* fault) const {
  const RequestFields fields{.source = fields_.target,
                             .target = fields_.source,
                             .stream = fields_.stream,
                             .number = fields_.number,
                             .opcode = fields_.opcode,
                             .flags = lane_flag::kResponse,
                             .length = static_cast<uint32_t>(data.size())};
  const iovec payload{const_cast<uint8_t*>(data.data()), data.size()};
  // Nobody waits for the answer to an answer.
  return lanes_.post(fields, {&payload, 1}, {}, fault);
}

Result<std::unique_ptr<LanePair>> LanePair::create(Adapter& adapter, std::shared_ptr<Peer> peer) {
  const std::optional<uint32_t> index = adapter.claim_lane(peer->incarnation());
  if (!index) return Status{ENOSPC};
  return std::unique_ptr<LanePair>(new LanePair(adapter, std::move(peer), *index, &adapter.lane(*index)));
}

LanePair::LanePair(Adapter& adapter, std::shared_ptr<Peer> peer, uint32_t index, Lane* lane)
    : adapter_(adapter), peer_(std::move(peer)), index_(index), lane_(lane), sent_(new Sent[kLaneRequests]) {}

LanePair::~LanePair() { adapter_.release_lane(index_); }

void LanePair::find_other_lane() {
  if (other_) return;
  const SegmentView& view = peer_->view();
  const uint64_t changes = view.lane_changes();
  if (changes == seen_changes_) return;
  seen_changes_ = changes;
  other_ = view.find_lane(adapter_.incarnation());
}

std::optional<uint64_t> LanePair::place(uint32_t length, uint64_t tail, uint64_t room) const {
  const uint64_t offset = payload_head_ % kLanePayloadBytes;
  const uint64_t skip = offset + length > kLanePayloadBytes ? kLanePayloadBytes - offset : 0;
  if (payload_head_ + skip + length - tail > room) return std::nullopt;
  return payload_head_ + skip;
}

LanePost LanePair::post(RequestFields fields, std::span<const iovec> payload, const Awaiting& awaiting,
                        CopyFault* fault) {
  uint32_t length = 0;
  for (const iovec& piece : payload) length += static_cast<uint32_t>(piece.iov_len);
  const auto copy_to = [&](uint8_t* to) {
    for (const iovec& piece : payload) {
      if (!guarded_copy(to, piece.iov_base, piece.iov_len, fault)) return false;
      to += piece.iov_len;
    }
    return true;
  };
  std::lock_guard lock(mutex_);
  const uint32_t kept = fields.flags & lane_flag::kResponse ? 0 : kRoomForResponses;
  const uint64_t number = posted_.load(std::memory_order_relaxed);
  const uint64_t answered = answered_.load(std::memory_order_acquire);  // pairs with take_replies()
  if (number - answered >= kLaneRequests - kept) return LanePost::full;
  LaneRequest& request = lane_->requests[number % kLaneRequests];
  uint64_t end = payload_head_;
  if (length <= kShortPayload) {
    fields.flags |= lane_flag::kShort;
    if (!copy_to(request.data)) return LanePost::fault;
  } else {
    const uint64_t tail = answered == 0 ? 0 : sent_[(answered - 1) % kLaneRequests].payload_end;
    const std::optional<uint64_t> start = place(length, tail, kLanePayloadBytes - uint64_t{kept} * kLaneMessageBytes);
    if (!start) return LanePost::full;
    fields.payload = static_cast<uint32_t>(*start % kLanePayloadBytes);
    if (!copy_to(lane_->payload + fields.payload)) return LanePost::fault;
    end = *start + length;
  }
  payload_head_ = end;
  sent_[number % kLaneRequests] = {awaiting, end};
  posted_.store(number + 1, std::memory_order_release);  // pairs with take_replies()
  uint64_t words[kRequestWords];
  std::memcpy(words, &fields, sizeof fields);
  for (size_t i = 0; i < kRequestWords; ++i) request.words[i].store(words[i], std::memory_order_relaxed);
  request.sequence.store(number + 1, std::memory_order_release);  // pairs with read_request()
  return LanePost::shown;
}

bool LanePair::read_request(RequestFields& out) const {
  const LaneRequest& request = other_->requests[served_ % kLaneRequests];
  if (request.sequence.load(std::memory_order_acquire) != served_ + 1) return false;  // pairs with post()
  uint64_t words[kRequestWords];
  for (size_t i = 0; i < kRequestWords; ++i) words[i] = request.words[i].load(std::memory_order_relaxed);
  std::memcpy(&out, words, sizeof out);
  return true;
}

bool LanePair::is_sound(const RequestFields& fields) {
  const bool fetched = fields.flags & lane_flag::kFetch;
  if (fetched && fields.pieces > kMaxSges) return false;
  const uint64_t bytes = fetched ? uint64_t{fields.pieces} * sizeof(Sge) : fields.length;
  if (fields.flags & lane_flag::kShort) return bytes <= kShortPayload;
  return bytes <= kLanePayloadBytes && fields.payload <= kLanePayloadBytes - bytes;
}

void LanePair::answer(const ReplyFields& reply) {
  LaneReply& place = lane_->replies[served_ % kLaneRequests];
  uint64_t words[kReplyWords];
  std::memcpy(words, &reply, sizeof reply);
  for (size_t i = 0; i < kReplyWords; ++i) place.words[i].store(words[i], std::memory_order_relaxed);
  place.sequence.store(++served_, std::memory_order_release);  // pairs with read_reply()
}

bool LanePair::read_reply(uint64_t number, ReplyFields& out) const {
  const LaneReply& place = other_->replies[number % kLaneRequests];
  if (place.sequence.load(std::memory_order_acquire) != number + 1) return false;  // pairs with answer()
  uint64_t words[kReplyWords];
  for (size_t i = 0; i < kReplyWords; ++i) words[i] = place.words[i].load(std::memory_order_relaxed);
  std::memcpy(&out, words, sizeof out);
  return true;
}

}  // namespace verbatim::local
