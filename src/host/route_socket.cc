#include "host/route_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace verbatim::host {
namespace {

// The kernel fills at most 32 KiB of a dump's buffer.
constexpr size_t kBuffer = 64 * 1024;

// A table that changes during so many readings is shown as the last one found it.
constexpr int kReadings = 5;

struct Message {
  nlmsghdr header;
  std::span<const std::byte> body;
};

// Takes the first message off `bytes`.
std::optional<Message> take_message(std::span<const std::byte>& bytes) {
  Message message;
  if (bytes.size() < sizeof message.header) return std::nullopt;
  std::memcpy(&message.header, bytes.data(), sizeof message.header);
  const size_t length = message.header.nlmsg_len;
  if (length < NLMSG_HDRLEN || length > bytes.size()) return std::nullopt;
  message.body = bytes.first(length).subspan(NLMSG_HDRLEN);
  bytes = bytes.subspan(std::min<size_t>(NLMSG_ALIGN(length), bytes.size()));
  return message;
}

// NLMSG_DONE and NLMSG_ERROR both begin with a negated errno.
int error_in(std::span<const std::byte> body) { return -header_of<int32_t>(body).value_or(0); }

}  // namespace

std::optional<std::span<const std::byte>> RouteAttributes::find(uint16_t type) const {
  for (std::span<const std::byte> rest = bytes_; rest.size() >= sizeof(rtattr);) {
    rtattr attribute;
    std::memcpy(&attribute, rest.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > rest.size()) break;
    if ((attribute.rta_type & NLA_TYPE_MASK) == type) return rest.first(attribute.rta_len).subspan(RTA_LENGTH(0));
    rest = rest.subspan(std::min<size_t>(RTA_ALIGN(attribute.rta_len), rest.size()));
  }
  return std::nullopt;
}

std::optional<uint32_t> RouteAttributes::number(uint16_t type) const {
  const auto payload = find(type);
  return payload ? header_of<uint32_t>(*payload) : std::nullopt;
}

std::string_view RouteAttributes::text(uint16_t type) const {
  const auto payload = find(type);
  if (!payload) return {};
  const auto* characters = reinterpret_cast<const char*>(payload->data());
  return {characters, strnlen(characters, payload->size())};
}

Result<RouteSocket> RouteSocket::open() {
  FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) return Status{errno};
  return RouteSocket(std::move(socket));
}

Status RouteSocket::dump(uint16_t request_type, uint8_t family, const std::function<void()>& restart,
                         const std::function<void(uint16_t, std::span<const std::byte>)>& row) {
  for (int reading = 0; reading < kReadings; ++reading) {
    restart();
    if (const Status sent = request(request_type, family); !sent.ok()) return sent;
    const Result<bool> consistent = read_answers(row);
    if (!consistent.ok()) return consistent.status();
    if (consistent.value()) break;
  }
  return Status::success();
}

Status RouteSocket::request(uint16_t request_type, uint8_t family) {
  // The longest of the fixed parts that GETLINK, GETADDR and GETROUTE have; all begin with the family.
  struct {
    nlmsghdr header;
    ifinfomsg body;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = request_type;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.header.nlmsg_seq = ++sequence_;
  message.body.ifi_family = family;

  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent;
  do {
    sent = sendto(socket_.get(), &message, sizeof message, 0, reinterpret_cast<sockaddr*>(&kernel), sizeof kernel);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? Status{errno} : Status::success();
}

// Whether the table stood still while it was read.
Result<bool> RouteSocket::read_answers(const std::function<void(uint16_t, std::span<const std::byte>)>& row) {
  std::vector<std::byte> buffer(kBuffer);
  bool consistent = true;
  for (;;) {
    sockaddr_nl sender{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part, .msg_iovlen = 1};
    const ssize_t received = recvmsg(socket_.get(), &message, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return Status{errno};
    if ((message.msg_flags & MSG_TRUNC) != 0) return Status{EMSGSIZE};
    // Any process may send to our port; only the kernel's is 0.
    if (sender.nl_pid != 0) continue;

    std::span<const std::byte> rest = std::span<const std::byte>(buffer).first(static_cast<size_t>(received));
    while (const std::optional<Message> answer = take_message(rest)) {
      if (answer->header.nlmsg_seq != sequence_) continue;
      if ((answer->header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) consistent = false;
      const uint16_t type = answer->header.nlmsg_type;
      if (type == NLMSG_DONE || type == NLMSG_ERROR) {
        if (const int error = error_in(answer->body); error != 0) return Status{error};
        return consistent;
      }
      row(type, answer->body);
    }
  }
}

}  // namespace verbatim::host
