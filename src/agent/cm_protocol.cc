#include "agent/cm_protocol.h"

#include <cerrno>
#include <optional>
#include <utility>
#include <variant>

#include "agent/cm_fields.h"

namespace verbatim::agent {
namespace {

using commands::Answer;
using commands::Command;

// Beyond the kinds of protocol.h. A kind is one of these and the place in the variant.
constexpr uint16_t kFirstCommand = 32;
constexpr uint16_t kFirstAnswer = 96;
constexpr uint16_t kEvent = 128;
static_assert(kFirstCommand + std::variant_size_v<Command> <= kFirstAnswer);
static_assert(kFirstAnswer + std::variant_size_v<Answer> <= kEvent);

template <class Body>
Frame frame_with(uint16_t kind, const Body& body) {
  Frame frame = frame_of(kind);
  ValueWriter writer(std::span(frame.bytes).subspan(frame.size));
  writer(body);
  frame.size += writer.size();
  return frame;
}

template <class Variant>
Frame encode_as(uint16_t first_kind, const Variant& message) {
  const auto kind = static_cast<uint16_t>(first_kind + message.index());
  return std::visit([&](const auto& body) { return frame_with(kind, body); }, message);
}

template <class Variant, size_t I>
std::optional<Variant> read_as(std::span<const std::byte> bytes) {
  std::variant_alternative_t<I, Variant> body;
  ValueReader reader(bytes);
  reader(body);
  if (!reader.is_complete()) return {};
  return Variant(std::in_place_index<I>, body);
}

template <class Variant, size_t... I>
std::optional<Variant> read_any(size_t index, std::span<const std::byte> bytes, std::index_sequence<I...>) {
  std::optional<Variant> message;
  static_cast<void>(((I == index && (message = read_as<Variant, I>(bytes), true)) || ...));
  return message;
}

template <class Variant>
Result<Variant> decode_as(uint16_t first_kind, std::span<const std::byte> bytes) {
  const Result<FrameView> frame = read_frame(bytes);
  if (!frame.ok()) return frame.status();
  if (frame.value().kind < first_kind) return Status{EPROTO};
  const std::optional<Variant> message = read_any<Variant>(frame.value().kind - first_kind, frame.value().body,
                                                           std::make_index_sequence<std::variant_size_v<Variant>>());
  if (!message) return Status{EPROTO};
  return *message;
}

}  // namespace

Frame encode(const Command& command) { return encode_as(kFirstCommand, command); }

Frame encode(const Answer& answer) { return encode_as(kFirstAnswer, answer); }

Frame encode(const commands::Taken& event) { return frame_with(kEvent, event); }

Result<Command> decode_command(std::span<const std::byte> bytes, size_t descriptors) {
  Result<Command> command = decode_as<Command>(kFirstCommand, bytes);
  if (!command.ok()) return command;
  const bool takes_channel =
      std::visit([]<class Body>(const Body&) { return commands::kTakesEventsBack<Body>; }, command.value());
  if (descriptors > (takes_channel ? 1u : 0u)) return Status{EPROTO};
  return command;
}

Result<Answer> decode_answer(std::span<const std::byte> bytes, size_t descriptors) {
  Result<Answer> answer = decode_as<Answer>(kFirstAnswer, bytes);
  const bool brings_channel = answer.ok() && std::holds_alternative<cm::Channel>(answer.value());
  if (answer.ok() && descriptors != (brings_channel ? 1u : 0u)) return Status{EPROTO};
  return answer;
}

Result<commands::Taken> decode_event(std::span<const std::byte> bytes) {
  const Result<FrameView> frame = read_frame(bytes);
  if (!frame.ok()) return frame.status();
  commands::Taken event;
  ValueReader reader(frame.value().body);
  reader(event);
  if (frame.value().kind != kEvent || !reader.is_complete()) return Status{EPROTO};
  return event;
}

}  // namespace verbatim::agent
