#include "agent/message_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>

namespace verbatim::agent {
namespace {

// Room for one sender and kMaxDescriptors; of more descriptors the kernel keeps the rest back and says MSG_CTRUNC.
struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMaxDescriptors * sizeof(int))> bytes{};
};

void fill(cmsghdr* entry, int type, const void* data, size_t size) {
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = type;
  entry->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(entry), data, size);
}

template <class T>
T read_at(const cmsghdr* entry, size_t index) {
  T value;
  std::memcpy(&value, CMSG_DATA(entry) + index * sizeof(T), sizeof value);
  return value;
}

// Takes ownership of every descriptor that arrived, so that none leaks whatever is wrong with the message.
std::optional<Sender> take_control(msghdr& header, std::vector<FileDescriptor>& descriptors) {
  std::optional<Sender> sender;
  for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry; entry = CMSG_NXTHDR(&header, entry)) {
    if (entry->cmsg_level != SOL_SOCKET) continue;
    const size_t size = entry->cmsg_len - CMSG_LEN(0);
    if (entry->cmsg_type == SCM_CREDENTIALS && size == sizeof(ucred)) {
      const auto credentials = read_at<ucred>(entry, 0);
      sender = Sender{credentials.pid, credentials.uid};
    } else if (entry->cmsg_type == SCM_RIGHTS) {
      for (size_t i = 0; i < size / sizeof(int); ++i) descriptors.emplace_back(read_at<int>(entry, i));
    }
  }
  return sender;
}

// A side that closes with messages of ours unread puts an ECONNRESET before its last messages: read past it.
ssize_t receive_past_reset(int socket, msghdr& header) {
  const msghdr fresh = header;
  ssize_t size;
  bool reset = false;
  do {
    header = fresh;
    size = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == ECONNRESET && !reset) {
      reset = true;
      errno = EINTR;
    }
  } while (size < 0 && errno == EINTR);
  return size;
}

}  // namespace

Status enable_credentials(int socket) {
  const int on = 1;
  return {::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 ? 0 : errno};
}

Status send_packet(int socket, const Frame& frame, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMaxDescriptors);
  iovec part{const_cast<std::byte*>(frame.bytes.data()), frame.size};
  ControlBuffer control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();

  const ucred credentials{::getpid(), ::geteuid(), ::getegid()};
  cmsghdr* entry = CMSG_FIRSTHDR(&header);
  fill(entry, SCM_CREDENTIALS, &credentials, sizeof credentials);
  size_t length = CMSG_SPACE(sizeof credentials);
  if (!descriptors.empty()) {
    fill(CMSG_NXTHDR(&header, entry), SCM_RIGHTS, descriptors.data(), descriptors.size_bytes());
    length += CMSG_SPACE(descriptors.size_bytes());
  }
  header.msg_controllen = length;

  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return {sent < 0 ? errno : 0};
}

Result<Packet> receive_packet(int socket) {
  Packet packet;
  iovec part{packet.frame.bytes.data(), packet.frame.bytes.size()};
  ControlBuffer control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();

  const ssize_t size = receive_past_reset(socket, header);
  if (size < 0) return Status{errno};
  const std::optional<Sender> sender = take_control(header, packet.descriptors);
  if (size == 0) return Status{ECONNRESET};
  if (header.msg_flags & MSG_CTRUNC) return Status{packet.descriptors.size() < kMaxDescriptors ? EMFILE : EPROTO};
  if ((header.msg_flags & MSG_TRUNC) || !sender) return Status{EPROTO};
  packet.frame.size = static_cast<size_t>(size);
  packet.sender = *sender;
  return packet;
}

void OutgoingQueue::push(const Frame& frame, std::shared_ptr<const SharedDescriptors> descriptors,
                         Incarnation introduces) {
  messages_.push_back({frame, std::move(descriptors), introduces});
}

Status OutgoingQueue::flush(int socket, const std::function<void(Incarnation)>& on_sent) {
  while (!messages_.empty()) {
    const Message& message = messages_.front();
    std::array<int, kMaxDescriptors> descriptors{};
    size_t count = 0;
    if (message.descriptors)
      for (const FileDescriptor& descriptor : *message.descriptors) descriptors.at(count++) = descriptor.get();
    const Status sent = send_packet(socket, message.frame, {descriptors.data(), count});
    if (!sent.ok()) return sent;
    const Incarnation introduced = message.introduces;
    messages_.pop_front();
    if (introduced != Incarnation{}) on_sent(introduced);
  }
  return Status::success();
}

Status OutgoingQueue::flush(int socket) {
  return flush(socket, [](Incarnation) {});
}

}  // namespace verbatim::agent
