// An event channel (rdma_create_event_channel(3)), destroyed at the end: after all identifiers whose events come there.
#pragma once

#include <chrono>
#include <optional>

#include "conformance/rdmacm/support/cm_event.h"
#include "conformance/rdmacm/support/identifier.h"
#include "conformance/support/side.h"

namespace verbatim::conformance {

class EventChannel {
 public:
  EventChannel();  // EXPECTs success
  EventChannel(const EventChannel&) = delete;
  ~EventChannel();

  rdma_event_channel* get() const { return channel_; }
  int fd() const { return channel_->fd; }
  void make_non_blocking() const;
  bool is_readable(std::chrono::milliseconds patience = {}) const;

  // The next event; null if there is none within that time.
  CmEventHandle fetch(std::chrono::milliseconds patience = kSoon) const;
  // The same, copied and acknowledged.
  std::optional<CmEvent> take(std::chrono::milliseconds patience = kSoon) const;
  std::string take_name(std::chrono::milliseconds patience = kSoon) const { return name(take(patience)); }

 private:
  rdma_event_channel* const channel_;
};

// An identifier on the channel whose route is resolved; its events are taken. EXPECTs success.
CmIdHandle resolved(const EventChannel& channel, const SocketAddress& destination);

}  // namespace verbatim::conformance
