// What a responder does with a command, wherever it lives.
#pragma once

#include <optional>
#include <thread>
#include <vector>

#include "conformance/support/pair.h"

namespace verbatim::conformance {

class ResponderState {
 public:
  Reply execute(const Command& command);

 private:
  Reply register_memory(const Command& command);
  Reply create_queue_pair(const Command& command);
  Reply post_receives(const Command& command);
  Reply post_receive(const Command& command) const;
  // But for the handle of a datagram.
  Request request_of(const Command& command) const;
  Reply post_send(const Command& command);
  Reply add_remotely(const Command& command) const;
  Reply next_event(const Command& command);
  void begin_writing(const Command& command);
  void end_writing();
  Reply allocate_window();
  Reply bind_window(const Command& command) const;
  Reply read(const Command& command) const;
  Reply compare(const Command& command) const;
  Reply await_change(const Command& command) const;

  Side side_;
  std::optional<Memory> memory_;
  MrHandle region_;
  XrcDomainHandle domain_;
  SrqHandle shared_;
  std::vector<AhHandle> handles_;
  std::vector<QpHandle> queue_pairs_;
  std::vector<MwHandle> windows_;
  std::vector<std::jthread> writers_;
};

}  // namespace verbatim::conformance
