// The line for a person.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "wire/bit_stream.h"
#include "wire/cm_fields.h"

namespace verbatim::wire {
namespace {

template <class Message>
constexpr std::string_view kName = "";
template <>
constexpr std::string_view kName<Req> = "REQ";
template <>
constexpr std::string_view kName<Mra> = "MRA";
template <>
constexpr std::string_view kName<Rej> = "REJ";
template <>
constexpr std::string_view kName<Rep> = "REP";
template <>
constexpr std::string_view kName<Rtu> = "RTU";
template <>
constexpr std::string_view kName<Dreq> = "DREQ";
template <>
constexpr std::string_view kName<Drep> = "DREP";
template <>
constexpr std::string_view kName<SidrReq> = "SIDR_REQ";
template <>
constexpr std::string_view kName<SidrRep> = "SIDR_REP";
template <>
constexpr std::string_view kName<Lap> = "LAP";
template <>
constexpr std::string_view kName<Apr> = "APR";

class Printer {
 public:
  static constexpr bool kReads = false;
  explicit Printer(std::string& line) : line_(line) {}

  template <class T>
  void field(std::string_view name, unsigned, const T& value) {
    if (number_of(value) != 0) fmt::format_to(std::back_inserter(line_), " {}={:#x}", name, number_of(value));
  }
  void field(std::string_view name, const Gid& gid) {
    if (!gid.is_zero()) fmt::format_to(std::back_inserter(line_), " {}={}", name, gid.text());
  }
  // Up to the last byte that is not padding.
  template <size_t N>
  void field(std::string_view name, const std::array<uint8_t, N>& value) {
    const auto end = std::find_if(value.rbegin(), value.rend(), [](uint8_t octet) { return octet != 0; }).base();
    if (end == value.begin()) return;
    fmt::format_to(std::back_inserter(line_), " {}=", name);
    for (auto octet = value.begin(); octet != end; ++octet) fmt::format_to(std::back_inserter(line_), "{:02x}", *octet);
  }
  void reserved(unsigned) {}

 private:
  std::string& line_;
};

}  // namespace

std::string text(const CmMessage& message) {
  std::string line;
  std::visit(
      [&]<class Message>(const Message& body) {
        line = fmt::format("{} transaction_id={:#x}", kName<Message>, message.transaction_id);
        Printer printer(line);
        fields(printer, body);
        if constexpr (requires { body.ece; }) printer.field("ece_options", 32, body.ece.options);
      },
      message.body);
  return line;
}

}  // namespace verbatim::wire
