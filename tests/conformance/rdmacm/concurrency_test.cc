// Threads that connect, transfer and part at the same time, each with a channel of its own or all with one.
#include <rdma/rdma_verbs.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "conformance/rdmacm/support/event_channel.h"
#include "conformance/rdmacm/support/identifier.h"
#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr int kThreads = 4;
const SocketAddress kAddress = SocketAddress::parse("127.0.0.1", 7174);

int rounds() { return test_everything() ? 2500 : 25; }

// A server with one channel and one thread, as most are: accepts everybody, answers partings.
class Service {
 public:
  Service() {
    EXPECT_EQ(bind_to(listener_.get(), kAddress), 0);
    EXPECT_EQ(error_of(rdma_listen(listener_.get(), 0)), 0);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        // Acknowledged before what it is about may be destroyed.
        if (const std::optional<CmEvent> event = channel_.take(std::chrono::milliseconds(10))) handle(*event);
      }
    });
  }
  ~Service() {
    thread_.request_stop();
    thread_.join();
    EXPECT_LE(connections_.size(), static_cast<size_t>(kThreads)) << "of the last of each, the end may be under way";
  }
  int served() const { return served_; }

 private:
  void handle(const CmEvent& event) {
    switch (event.type) {
      case RDMA_CM_EVENT_CONNECT_REQUEST: {
        CmIdHandle id(event.id);
        create_queue_pair(id.get());
        rdma_conn_param parameters = plain_parameters();
        // The client may have gone already.
        if (rdma_accept(id.get(), &parameters) == 0) connections_[event.id] = std::move(id);
        return;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        ++served_;
        return;
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_REJECTED:
      case RDMA_CM_EVENT_UNREACHABLE:
        connections_.erase(event.id);
        return;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      default:
        ADD_FAILURE() << name(event);
    }
  }

  const EventChannel channel_;
  const CmIdHandle listener_ = create_id(channel_.get());
  std::map<rdma_cm_id*, CmIdHandle> connections_;
  std::atomic<int> served_{0};
  std::jthread thread_;
};

CmIdHandle connected(const EventChannel& channel) {
  CmIdHandle id = resolved(channel, kAddress);
  create_queue_pair(id.get());
  rdma_conn_param parameters = plain_parameters();
  EXPECT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
  EXPECT_EQ(channel.take_name(), "ESTABLISHED");
  return id;
}

TEST(ManyThreads, ConnectWithChannelsOfTheirOwn) {
  Service service;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kThreads; ++i)
    clients.emplace_back([] {
      const EventChannel channel;
      for (int round = 0; round < rounds() && !testing::Test::HasFailure(); ++round) {
        CmIdHandle id = connected(channel);
        if (round % 2) {
          EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
          EXPECT_EQ(channel.take_name(), "DISCONNECTED");
        }
        id.reset();
      }
    });
  clients.clear();
  EXPECT_GE(service.served(), kThreads * rounds() - kThreads) << "an RTU may be on its way";
}

TEST(ManyThreads, OpenAndCloseChannels) {
  Service service;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kThreads; ++i)
    clients.emplace_back([] {
      for (int round = 0; round < rounds() && !testing::Test::HasFailure(); ++round) {
        const EventChannel channel;
        const CmIdHandle id = connected(channel);
      }
    });
}

TEST(ManyThreads, ConnectSynchronously) {
  Service service;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kThreads; ++i)
    clients.emplace_back([] {
      for (int round = 0; round < rounds() && !testing::Test::HasFailure(); ++round) {
        const CmIdHandle id = create_id(nullptr);
        ASSERT_EQ(resolve_to(id.get(), kAddress), 0);
        ASSERT_EQ(error_of(rdma_resolve_route(id.get(), 2000)), 0);
        create_queue_pair(id.get());
        rdma_conn_param parameters = plain_parameters();
        ASSERT_EQ(error_of(rdma_connect(id.get(), &parameters)), 0);
        EXPECT_EQ(error_of(rdma_disconnect(id.get())), 0);
      }
    });
}

// Some take events, others create, resolve and destroy at any moment.
TEST(ManyThreads, ShareAChannel) {
  const EventChannel channel;
  channel.make_non_blocking();
  std::atomic<bool> over{false};
  std::vector<std::jthread> takers;
  for (int i = 0; i < 2; ++i)
    takers.emplace_back([&] {
      while (!over) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel.get(), &event) == 0)
          rdma_ack_cm_event(event);
        else
          std::this_thread::yield();
      }
    });
  std::vector<std::jthread> users;
  for (int i = 0; i < 2; ++i)
    users.emplace_back([&] {
      for (int round = 0; round < 10 * rounds(); ++round) {
        const CmIdHandle id = create_id(channel.get());
        EXPECT_EQ(resolve_to(id.get(), kAddress), 0);
      }
    });
  users.clear();
  over = true;
}

TEST(ManyThreads, ListDevices) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < rounds(); ++round) {
        int count = 0;
        ibv_context** const devices = rdma_get_devices(&count);
        ASSERT_NE(devices, nullptr);
        EXPECT_EQ(count, 1);
        rdma_free_devices(devices);
      }
    });
}

}  // namespace
}  // namespace verbatim::conformance
