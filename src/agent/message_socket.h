// Sends and receives one message with its descriptors and its sender's credentials (unix(7)). Never blocks, never
// raises SIGPIPE. Thread-safe as the socket is.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agent/protocol.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/types.h"

namespace verbatim::agent {

// As the kernel vouches for it: SCM_CREDENTIALS of the message.
struct Sender {
  pid_t pid = 0;
  uint32_t uid = 0;
};

struct Packet {
  Frame frame;
  Sender sender;
  std::vector<FileDescriptor> descriptors;  // close-on-exec
};

// Makes the kernel deliver the credentials that receive_packet() insists on.
Status enable_credentials(int socket);

// EAGAIN: the other side's buffer is full. EPIPE, ECONNRESET: it is gone. Descriptors are borrowed.
Status send_packet(int socket, const Frame& frame, std::span<const int> descriptors);

// EAGAIN: nothing there. ECONNRESET: the other side is gone and everything it sent was read. EPROTO: no message of this
// protocol. EMFILE: we have no room for its descriptors, which are lost with the message.
Result<Packet> receive_packet(int socket);

// What goes with a message, in its order; at most kMaxDescriptors.
using SharedDescriptors = std::vector<FileDescriptor>;

// Messages on their way to one socket, in order. Not thread-safe.
class OutgoingQueue {
 public:
  // `introduces` is handed to on_sent when the socket's buffer has accepted the message; 0 for messages of which nobody
  // needs to know. Descriptors are kept open until then.
  void push(const Frame& frame, std::shared_ptr<const SharedDescriptors> descriptors = nullptr,
            Incarnation introduces = {});

  // Sends what the buffer takes. Success: everything. Otherwise the error of send_packet() for the first unsent
  // message.
  Status flush(int socket, const std::function<void(Incarnation introduces)>& on_sent);
  Status flush(int socket);

  size_t size() const { return messages_.size(); }
  bool empty() const { return messages_.empty(); }
  void clear() { messages_.clear(); }

 private:
  struct Message {
    Frame frame;
    std::shared_ptr<const SharedDescriptors> descriptors;
    Incarnation introduces;
  };

  std::deque<Message> messages_;
};

}  // namespace verbatim::agent
