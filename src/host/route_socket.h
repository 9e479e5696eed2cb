// Asks the kernel's routing side for a whole table (rtnetlink(7)). One thread at a time.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace verbatim::host {

// The attributes of one message, by type. Borrowed from the message.
class RouteAttributes {
 public:
  explicit RouteAttributes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // The payload of the first attribute of `type`.
  std::optional<std::span<const std::byte>> find(uint16_t type) const;
  std::optional<uint32_t> number(uint16_t type) const;
  std::string_view text(uint16_t type) const;  // empty where there is none

 private:
  std::span<const std::byte> bytes_;
};

class RouteSocket {
 public:
  static Result<RouteSocket> open();

  // Calls `row` with the type and body of each message that answers `request_type` (RTM_GETLINK, …) for `family`,
  // which may be AF_UNSPEC. restart() is called before the first, and again if the table changed while it was being
  // read: what came before is then void.
  Status dump(uint16_t request_type, uint8_t family, const std::function<void()>& restart,
              const std::function<void(uint16_t type, std::span<const std::byte> body)>& row);

 private:
  explicit RouteSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  Status request(uint16_t request_type, uint8_t family);
  Result<bool> read_answers(const std::function<void(uint16_t, std::span<const std::byte>)>& row);

  FileDescriptor socket_;
  uint32_t sequence_ = 0;
};

// The fixed part of a message body, and what follows it.
template <class Header>
std::optional<Header> header_of(std::span<const std::byte> body) {
  if (body.size() < sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, body.data(), sizeof header);
  return header;
}

template <class Header>
RouteAttributes attributes_after(std::span<const std::byte> body) {
  constexpr size_t kHeader = NLMSG_ALIGN(sizeof(Header));
  return RouteAttributes(body.size() < kHeader ? std::span<const std::byte>() : body.subspan(kHeader));
}

}  // namespace verbatim::host
