#include "conformance/rdmacm/support/event_channel.h"

#include <fcntl.h>
#include <poll.h>

#include <cstring>

namespace verbatim::conformance {

EventChannel::EventChannel() : channel_(rdma_create_event_channel()) {
  EXPECT_NE(channel_, nullptr) << strerror(errno);
}

EventChannel::~EventChannel() {
  if (channel_) rdma_destroy_event_channel(channel_);
}

void EventChannel::make_non_blocking() const { EXPECT_EQ(fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK), 0); }

bool EventChannel::is_readable(std::chrono::milliseconds patience) const {
  pollfd readable{.fd = fd(), .events = POLLIN, .revents = 0};
  return poll(&readable, 1, static_cast<int>(patience.count())) == 1;
}

CmEventHandle EventChannel::fetch(std::chrono::milliseconds patience) const {
  if (!is_readable(patience)) return nullptr;
  rdma_cm_event* event = nullptr;
  const int result = rdma_get_cm_event(channel_, &event);
  EXPECT_EQ(result, 0) << strerror(errno);
  return CmEventHandle(result == 0 ? event : nullptr);
}

std::optional<CmEvent> EventChannel::take(std::chrono::milliseconds patience) const {
  const CmEventHandle event = fetch(patience);
  return event ? std::optional<CmEvent>(*event) : std::nullopt;
}

CmIdHandle resolved(const EventChannel& channel, const SocketAddress& destination) {
  CmIdHandle id = create_id(channel.get());
  EXPECT_EQ(resolve_to(id.get(), destination), 0);
  EXPECT_EQ(channel.take_name(), "ADDR_RESOLVED");
  EXPECT_EQ(error_of(rdma_resolve_route(id.get(), 2000)), 0);
  EXPECT_EQ(channel.take_name(), "ROUTE_RESOLVED");
  return id;
}

}  // namespace verbatim::conformance
