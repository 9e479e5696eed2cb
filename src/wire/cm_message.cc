#include "wire/cm_message.h"

#include <optional>
#include <type_traits>

#include "wire/bit_stream.h"
#include "wire/cm_fields.h"

namespace verbatim::wire {
namespace {

// The common header (13.4.3), as a CM message has it; status, and the class-specific field after it, are zero.
struct MadHeader {
  uint8_t base_version = 1;
  uint8_t management_class = 0x07;
  uint8_t class_version = 2;
  uint8_t method = 3;  // ComMgtSend
  uint64_t transaction_id = 0;
  uint16_t attribute_id = 0;
  uint32_t attribute_modifier = 0;  // the options of ECE, in messages that have them
};
constexpr size_t kHeaderSize = 24;

template <class Stream, Either<MadHeader> Header>
constexpr void fields(Stream& stream, Header& header) {
  stream.field("base_version", 8, header.base_version);
  stream.field("management_class", 8, header.management_class);
  stream.field("class_version", 8, header.class_version);
  stream.field("method", 8, header.method);
  stream.reserved(32);
  stream.field("transaction_id", 64, header.transaction_id);
  stream.field("attribute_id", 16, header.attribute_id);
  stream.reserved(16);
  stream.field("attribute_modifier", 32, header.attribute_modifier);
}

template <class Message>
constexpr size_t bits_of() {
  const Message message;
  BitCounter counter;
  fields(counter, message);
  return counter.bits;
}

constexpr size_t kBodyBits = (kMadSize - kHeaderSize) * 8;
static_assert(bits_of<MadHeader>() == kHeaderSize * 8);
static_assert(bits_of<Req>() == kBodyBits && bits_of<Mra>() == kBodyBits && bits_of<Rej>() == kBodyBits);
static_assert(bits_of<Rep>() == kBodyBits && bits_of<Rtu>() == kBodyBits && bits_of<Dreq>() == kBodyBits);
static_assert(bits_of<Drep>() == kBodyBits && bits_of<Lap>() == kBodyBits && bits_of<Apr>() == kBodyBits);
static_assert(bits_of<SidrReq>() == kBodyBits && bits_of<SidrRep>() == kBodyBits);

template <class Message>
constexpr bool kHasEce =
    std::is_same_v<Message, Req> || std::is_same_v<Message, Rep> || std::is_same_v<Message, SidrRep>;

// The body of the alternative whose attribute it is.
template <class... Messages>
std::optional<CmBody> empty_body(uint16_t attribute, const std::variant<Messages...>*) {
  std::optional<CmBody> body;
  ((Messages::kAttribute == attribute ? void(body = Messages{}) : void()), ...);
  return body;
}

bool is_possible(const CmBody& body) {
  if (const auto* rej = std::get_if<Rej>(&body)) return rej->reject_info_length <= rej->additional_reject_info.size();
  if (const auto* rep = std::get_if<SidrRep>(&body)) return rep->additional_info_length <= rep->additional_info.size();
  if (const auto* apr = std::get_if<Apr>(&body)) return apr->additional_info_length <= apr->additional_info.size();
  return true;
}

}  // namespace

std::variant<CmMessage, Reason> parse_cm(std::span<const uint8_t> bytes) {
  if (bytes.size() != kMadSize) return Reason::mad_length;
  constexpr MadHeader kExpected;
  MadHeader header;
  BitReader header_bits(bytes.first(kHeaderSize));
  fields(header_bits, header);
  if (header.base_version != kExpected.base_version || header.management_class != kExpected.management_class ||
      header.class_version != kExpected.class_version || header.method != kExpected.method)
    return Reason::mad_not_cm;

  std::optional<CmBody> body = empty_body(header.attribute_id, static_cast<const CmBody*>(nullptr));
  if (!body) return Reason::mad_attribute;
  std::visit(
      [&]<class Message>(Message& message) {
        BitReader bits(bytes.subspan(kHeaderSize));
        fields(bits, message);
        if constexpr (kHasEce<Message>) message.ece.options = header.attribute_modifier;
      },
      *body);
  if (!is_possible(*body)) return Reason::mad_field;
  return CmMessage{header.transaction_id, *body};
}

Mad emit_cm(const CmMessage& message) {
  Mad mad{};
  const std::span<uint8_t, kMadSize> bytes = mad;
  MadHeader header{.transaction_id = message.transaction_id};
  std::visit(
      [&]<class Message>(const Message& body) {
        header.attribute_id = Message::kAttribute;
        if constexpr (kHasEce<Message>) header.attribute_modifier = body.ece.options;
        BitWriter bits(bytes.subspan(kHeaderSize));
        fields(bits, body);
      },
      message.body);
  BitWriter header_bits(bytes.first(kHeaderSize));
  fields(header_bits, header);
  return mad;
}

}  // namespace verbatim::wire
