#include "agent/protocol.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace verbatim::agent {
namespace {

constexpr uint64_t kMaxSegment = uint64_t{1} << 40;

bool is_slot(uint64_t slot) { return slot <= kLastSlot && is_given_out({static_cast<uint16_t>(slot)}); }
bool is_pid(int64_t pid) { return pid >= 1 && pid <= std::numeric_limits<int32_t>::max(); }
bool is_segment_size(uint64_t size) { return size >= 1 && size <= kMaxSegment; }

template <class Body>
constexpr size_t body_size() {
  if constexpr (std::is_empty_v<Body>) return 0;
  return sizeof(Body);
}

template <class Body>
constexpr bool is_wire_format() {
  if constexpr (std::is_empty_v<Body>) return true;
  // Without padding no stale byte of our memory leaves with a message.
  return std::is_trivially_copyable_v<Body> && std::has_unique_object_representations_v<Body>;
}

template <class Body>
Frame encode_body(const Body& body) {
  static_assert(is_wire_format<Body>() && body_size<Body>() <= kMaxBody);
  static_assert(Body::kDescriptors <= kMaxDescriptors);
  assert(body.valid());
  Frame frame = frame_of(static_cast<uint16_t>(Body::kKind));
  if constexpr (body_size<Body>() > 0) std::memcpy(frame.bytes.data() + frame.size, &body, sizeof body);
  frame.size += body_size<Body>();
  return frame;
}

template <class Body>
std::optional<Body> decode_body(MessageKind kind, std::span<const std::byte> bytes, size_t descriptors) {
  if (kind != Body::kKind || bytes.size() != body_size<Body>() || descriptors != Body::kDescriptors) return {};
  Body body;
  if constexpr (body_size<Body>() > 0) std::memcpy(&body, bytes.data(), sizeof body);
  if (!body.valid()) return {};
  return body;
}

template <class Message>
struct Decoder;

template <class... Bodies>
struct Decoder<std::variant<Bodies...>> {
  static Result<std::variant<Bodies...>> decode(std::span<const std::byte> bytes, size_t descriptors) {
    const Result<FrameView> frame = read_frame(bytes);
    if (!frame.ok()) return frame.status();
    std::optional<std::variant<Bodies...>> message;
    const auto attempt = [&](auto body) {
      if (body) message = *body;
    };
    (attempt(decode_body<Bodies>(static_cast<MessageKind>(frame.value().kind), frame.value().body, descriptors)), ...);
    if (!message) return Status{EPROTO};
    return *message;
  }
};

}  // namespace

std::string_view describe(Refusal refusal) {
  switch (refusal) {
    case Refusal::malformed_message:
      return "it sent a message that the agent does not understand";
    case Refusal::other_version:
      return "it speaks another version of the agent's protocol";
    case Refusal::other_user:
      return "its real, effective and saved user are not all the agent's";
    case Refusal::other_namespace:
      return "it is in another user or PID namespace than the agent";
    case Refusal::process_unreadable:
      return "the agent cannot read its /proc entry (is it undumpable, or has it capabilities that the agent lacks?)";
    case Refusal::other_process:
      return "it is not the process that it says it is";
    case Refusal::slot_taken:
      return "another process has its slot of queue pair numbers";
    case Refusal::incarnation_taken:
      return "another process has its incarnation number";
    case Refusal::out_of_descriptors:
      return "the agent has no file descriptors left";
    case Refusal::does_not_read:
      return "it left too many of the agent's messages unread";
  }
  return "of a reason that this release does not know";
}

SlotList SlotList::of(std::span<const Slot> slots) {
  assert(slots.size() <= kMaxSlotsPerProcess);
  SlotList list;
  list.count = slots.size();
  std::transform(slots.begin(), slots.end(), list.slots.begin(), [](Slot slot) { return slot.value; });
  return list;
}

std::vector<Slot> SlotList::list() const {
  std::vector<Slot> result;
  for (uint64_t i = 0; i < count; ++i) result.push_back({slots[i]});
  return result;
}

bool SlotList::valid() const {
  if (count > slots.size()) return false;
  std::vector<uint16_t> listed(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(count));
  std::sort(listed.begin(), listed.end());
  const bool distinct = std::adjacent_find(listed.begin(), listed.end()) == listed.end();
  return distinct && std::all_of(listed.begin(), listed.end(), is_slot);
}

bool Hello::valid() const {
  return incarnation != 0 && is_segment_size(segment_size) && slots.count >= 1 && slots.valid();
}
bool AddSlot::valid() const { return is_slot(slot); }
bool Introduce::valid() const { return is_slot(slot); }
bool KnownPeer::valid() const { return incarnation != 0 && is_pid(pid); }
bool Peer::valid() const {
  return incarnation != 0 && is_pid(pid) && is_segment_size(segment_size) && knows_us <= 1 && slots.valid();
}
bool PeerSlot::valid() const { return incarnation != 0 && is_slot(slot); }
bool Unowned::valid() const { return is_slot(slot); }
bool Dead::valid() const { return incarnation != 0 && is_pid(pid); }

Frame encode(const ToAgent& message) {
  return std::visit([](const auto& body) { return encode_body(body); }, message);
}

Frame encode(const ToMember& message) {
  return std::visit([](const auto& body) { return encode_body(body); }, message);
}

Result<ToAgent> decode_to_agent(std::span<const std::byte> bytes, size_t descriptors) {
  return Decoder<ToAgent>::decode(bytes, descriptors);
}

Result<ToMember> decode_to_member(std::span<const std::byte> bytes, size_t descriptors) {
  return Decoder<ToMember>::decode(bytes, descriptors);
}

}  // namespace verbatim::agent
