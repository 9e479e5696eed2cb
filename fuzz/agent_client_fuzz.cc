// An agent that says whatever it likes: the client tells of each peer once, of no end but that of a peer it told of,
// and of nothing that has no descriptors.
#include <condition_variable>
#include <set>

#include "agent/agent_test_support.h"
#include "agent_input.h"
#include "expectations.h"

namespace verbatim::agent {
namespace {

struct Saying {
  std::vector<std::byte> bytes;
  bool with_descriptors = false;
};

// Welcomes whoever comes, and says all of it.
class LyingAgent {
 public:
  explicit LyingAgent(const AgentIdentity& identity) : listener_(listen_at(identity.agent_name())) {}

  void say(std::vector<Saying> sayings) {
    thread_ = std::jthread([this, sayings = std::move(sayings)](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!becomes_readable(listener_.get(), 1)) continue;
        sockets_.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        serve(sockets_.back().get(), sayings);
        ++served_;
      }
      sockets_.clear();
    });
  }
  int served() const { return served_; }

 private:
  void serve(int socket, const std::vector<Saying>& sayings) {
    EXPECT_TRUE(enable_credentials(socket).ok());
    // Who came may have gone again by now.
    [[maybe_unused]] const Status welcomed = send_packet(socket, encode(ToMember(Welcome{})), {});
    const int shown[] = {segment_.get(), doorbell_.get()};
    for (const Saying& saying : sayings) {
      Frame frame{.size = std::min(saying.bytes.size(), kMaxFrame)};
      std::copy_n(saying.bytes.begin(), frame.size, frame.bytes.begin());
      const std::span<const int> all(shown);
      [[maybe_unused]] const Status sent = send_packet(socket, frame, saying.with_descriptors ? all : all.first(0));
    }
  }

  const FileDescriptor listener_;
  const FileDescriptor segment_{memfd_create("segment", MFD_CLOEXEC)};
  const FileDescriptor doorbell_{eventfd(0, EFD_CLOEXEC)};
  std::atomic<int> served_{0};
  std::vector<FileDescriptor> sockets_;  // of thread_
  std::jthread thread_;
};

struct Expectations : AgentEvents {
  std::set<Incarnation> known;
  void on_peer(PeerProcess peer) override {
    EXPECT_TRUE(known.insert(peer.incarnation).second);
    EXPECT_TRUE(peer.segment.valid() && peer.doorbell.valid());
    EXPECT_GT(peer.pid, 0);
  }
  void on_peer_slot(Incarnation peer, Slot) override { EXPECT_TRUE(known.contains(peer)); }
  void on_peer_dead(Incarnation peer) override { EXPECT_EQ(known.erase(peer), 1u); }
  void on_unowned(Slot) override {}
  void on_everyone() override {}
  void on_refused(std::string_view why) override { EXPECT_FALSE(why.empty()); }
};

std::vector<Saying> any_sayings(FuzzedDataProvider& input) {
  std::vector<Saying> sayings;
  while (input.remaining_bytes() > 0) {
    Saying saying;
    if (input.ConsumeIntegralInRange(0, 7) == 0) {
      saying.bytes = input.ConsumeBytes<std::byte>(kMaxFrame);
      saying.with_descriptors = input.ConsumeBool();
    } else {
      const Frame frame = maybe_garbled(input, any_message_to_member(input));
      saying.bytes.assign(frame.bytes.begin(), frame.bytes.begin() + static_cast<ptrdiff_t>(frame.size));
      static const size_t peer_size = encode(ToMember(agent::Peer{1, 1, 1, 1, 0, SlotList{1, {1}}})).size;
      saying.with_descriptors = (frame.size == peer_size) != (input.ConsumeIntegralInRange(0, 15) == 0);
    }
    sayings.push_back(std::move(saying));
  }
  return sayings;
}

}  // namespace
}  // namespace verbatim::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbatim;
  using namespace verbatim::agent;
  fuzz::end_at_the_first_failure();
  static const AgentIdentity identity = test_identity();
  FuzzedDataProvider input(data, size);
  const FileDescriptor segment(memfd_create("segment", MFD_CLOEXEC)), doorbell(eventfd(0, EFD_CLOEXEC));
  LyingAgent agent(identity);
  agent.say(any_sayings(input));
  AgentClient client(identity, kNoAgent, {{77}, {Slot{9}}, segment.get(), 4096, doorbell.get()});
  EXPECT_TRUE(client.start().ok());
  Expectations events;
  for (const uint16_t slot : {1, 2, 3}) [[maybe_unused]] const Status asked = client.introduce({slot});
  while (agent.served() == 0) std::this_thread::yield();
  client.receive(events);
  for (const uint16_t slot : {4, 1}) [[maybe_unused]] const Status asked = client.introduce({slot});
  client.receive(events);
  return 0;
}
