// Members of an agent that say whatever they like, with whatever descriptors: it goes on serving the others.
#include "agent/agent_test_support.h"
#include "agent_input.h"
#include "expectations.h"

namespace verbatim::agent {
namespace {

const AgentIdentity& identity() {
  static const AgentIdentity own = test_identity();
  return own;
}

// Serves for the whole life of the fuzzer.
void start_agent_once() {
  static const AgentThread* const agent = new AgentThread(
      identity(),
      {.linger = Duration::milliseconds(1'000'000'000), .slot_grace = Duration::milliseconds(1), .queue_limit = 4});
  static_cast<void>(agent);
}

class Liar {
 public:
  Liar() : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const AbstractName name = identity().agent_name();
    EXPECT_EQ(::connect(socket_.get(), name.get(), name.length), 0);
  }

  // Refused as often as not.
  void say(std::span<const std::byte> bytes, std::span<const int> descriptors) {
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{.msg_iov = &piece, .msg_iovlen = 1};
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    [[maybe_unused]] const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  }

  void listen() {
    while (receive_packet(socket_.get()).ok()) {
    }
  }

 private:
  FileDescriptor socket_;
};

void act(FuzzedDataProvider& input, std::vector<Liar>& liars, std::span<const int> shown) {
  constexpr size_t kMostLiars = 6;
  if (liars.empty() || (liars.size() < kMostLiars && input.ConsumeIntegralInRange(0, 3) == 0)) {
    liars.emplace_back();
    return;
  }
  const size_t which = input.ConsumeIntegralInRange<size_t>(0, liars.size() - 1);
  const size_t count = input.ConsumeBool() ? 2 : input.ConsumeIntegralInRange<size_t>(0, shown.size());
  switch (input.ConsumeIntegralInRange(0, 7)) {
    case 0:
      liars.erase(liars.begin() + static_cast<ptrdiff_t>(which));
      break;
    case 1:
      liars[which].listen();
      break;
    case 2: {
      const std::vector<std::byte> bytes = input.ConsumeBytes<std::byte>(kMaxFrame + 8);
      liars[which].say(bytes, shown.first(count));
      break;
    }
    default: {
      const Frame frame = maybe_garbled(input, any_message_to_agent(input));
      static const size_t hello_size = encode(ToAgent(Hello{1, 1, 1, {}, SlotList{1, {1}}})).size;
      liars[which].say(frame.view(), shown.first(frame.size == hello_size ? count : 0));
    }
  }
}

}  // namespace
}  // namespace verbatim::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbatim;
  using namespace verbatim::agent;
  fuzz::end_at_the_first_failure();
  start_agent_once();
  FuzzedDataProvider input(data, size);
  const FileDescriptor segment(memfd_create("segment", MFD_CLOEXEC)), doorbell(eventfd(0, EFD_CLOEXEC)),
      other(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int shown[] = {segment.get(), doorbell.get(), other.get(), other.get(), segment.get()};
  std::vector<Liar> liars;
  while (input.remaining_bytes() > 0) act(input, liars, shown);
  // Two who behave meet, whoever else there is.
  BareMember alice(identity(), Slot{100}), bob(identity(), Slot{101});
  alice.say(Introduce{101});
  const auto has_met_bob = [&] {
    const ToMember message = alice.next();
    EXPECT_FALSE(std::holds_alternative<Refused>(message));
    const Peer* const peer = std::get_if<Peer>(&message);
    return peer && peer->incarnation == bob.incarnation().value;
  };
  while (!has_met_bob()) {
  }
  return 0;
}
