#include "agent/cm_client.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>

#include "agent/agent_test_support.h"
#include "base/sanitizer.h"
#include "support/cancelled_thread.h"
#include "support/descriptor_hoard.h"
#include "support/sleeping_thread.h"
#include "support/two_hosts.h"

namespace verbatim {
namespace {

using namespace commands;
using agent::AgentThread;
using agent::becomes_readable;
using agent::ChildProcess;
using agent::kNoAgent;
using cm::Names;

// A program with one channel. It uses this host's real loopback address, and ports that are its agent's alone.
class Program {
 public:
  explicit Program(const AgentIdentity& identity) : client_(identity, kNoAgent) {
    Result<std::unique_ptr<CmChannel>> opened = client_.open_channel();
    EXPECT_TRUE(opened.ok()) << opened.error();
    if (opened.ok()) channel_ = opened.take();
  }

  CmClient& client() { return client_; }
  CmChannel& channel() { return *channel_; }
  int fd() const { return channel_->fd(); }
  void close() { channel_.reset(); }

  template <class Command>
  int error(const Command& command) {
    return channel_->call(command).error();
  }

  void tell(const Command& command) { EXPECT_EQ(channel_->tell(command).error, 0); }

  cm::IdHandle create() {
    const Result<cm::IdHandle> id = channel_->create(cm::PortSpace::tcp, cm::QpType::rc);
    EXPECT_TRUE(id.ok()) << id.error();
    return id.ok() ? id.value() : cm::IdHandle{};
  }
  cm::IdHandle listening(uint16_t port) {
    const cm::IdHandle id = create();
    EXPECT_EQ(error(Bind{id, address(port)}), 0);
    EXPECT_EQ(error(Listen{id, 0}), 0);
    return id;
  }
  cm::IdHandle resolved(uint16_t port) {
    const cm::IdHandle id = create();
    EXPECT_EQ(error(ResolveAddress{id, {{}, address(port), Duration::milliseconds(2000), false}}), 0);
    EXPECT_EQ(next().first, "ADDR_RESOLVED");
    EXPECT_EQ(error(ResolveRoute{id}), 0);
    EXPECT_EQ(next().first, "ROUTE_RESOLVED");
    return id;
  }
  cm::IdHandle connecting(uint16_t port) {
    const cm::IdHandle id = resolved(port);
    EXPECT_EQ(error(Connect{id, {.parameters = {.qpn = {++last_qpn_}}}}), 0);
    return id;
  }
  // Of the next request.
  cm::IdHandle accept() {
    const auto [name, id] = next();
    EXPECT_EQ(name, "CONNECT_REQUEST");
    EXPECT_EQ(error(Accept{id, {.parameters = {.qpn = {0x222}}}}), 0);
    return id;
  }

  std::pair<std::string, cm::IdHandle> next() {
    const Result<commands::Taken> taken = channel_->take_event();
    EXPECT_TRUE(taken.ok()) << taken.error();
    if (!taken.ok()) return {};
    const cm::Event& event = taken.value().event;
    if (event.type == cm::EventType::connect_request) tell(TakeRequest{event.id});
    return {cm::name(event), event.id};
  }

 private:
  static cm::Address address(uint16_t port) { return cm::ipv4("127.0.0.1", port); }

  // A queue pair that connects anew while the manager knows an older connection of it would be stale.
  static inline std::atomic<uint32_t> last_qpn_{0x1000};

  CmClient client_;
  std::unique_ptr<CmChannel> channel_;
};

class CmClientTest : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 7174;

  static void make_non_blocking(int fd) { ASSERT_EQ(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

  // The client's end and the server's.
  static std::pair<cm::IdHandle, cm::IdHandle> connect(Program& client, Program& server) {
    const cm::IdHandle active = client.connecting(kPort);
    const cm::IdHandle passive = server.accept();
    EXPECT_EQ(client.next().first, "CONNECT_RESPONSE");
    EXPECT_EQ(client.error(Establish{active}), 0);
    EXPECT_EQ(server.next().first, "ESTABLISHED");
    return {active, passive};
  }

  const AgentIdentity identity_ = agent::test_identity();
};

TEST_F(CmClientTest, TwoProgramsConnectAndPart) {
  AgentThread agent(identity_);
  Program client(identity_), server(identity_);
  server.listening(kPort);
  const auto [active, passive] = connect(client, server);
  const Result<cm::IdView> view = client.channel().call(Query{active});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view.value().qp->remote_qpn, Qpn{0x222});
  EXPECT_EQ(view.value().destination.port, kPort);
  EXPECT_EQ(client.error(Disconnect{active}), 0);
  EXPECT_EQ(server.next(), std::pair(std::string("DISCONNECTED"), passive));
  EXPECT_EQ(server.error(Destroy{passive, server.channel().handle()}), 0);
  EXPECT_EQ(client.next(), std::pair(std::string("DISCONNECTED"), active));
  EXPECT_EQ(client.error(Destroy{active, client.channel().handle(), 4}), 0);
  EXPECT_EQ(client.error(Query{active}), ENOENT);
}

TEST_F(CmClientTest, AProgramIsRejectedWhereNobodyListensAndByAnother) {
  AgentThread agent(identity_);
  Program client(identity_), server(identity_);
  client.connecting(kPort);
  EXPECT_EQ(client.next().first, "REJECTED 8");
  server.listening(kPort);
  client.connecting(kPort);
  const auto [name, id] = server.next();
  EXPECT_EQ(name, "CONNECT_REQUEST");
  EXPECT_EQ(server.error(Reject{id, wire::RejectReason::consumer_reject, cm::bytes(148)}), 0);
  const Result<commands::Taken> rejected = client.channel().take_event();
  ASSERT_TRUE(rejected.ok());
  EXPECT_EQ(cm::name(rejected.value().event), "REJECTED 28");
  EXPECT_EQ(rejected.value().event.private_data, cm::bytes(148));
}

TEST_F(CmClientTest, ABacklogLimitsTheRequestsThatWait) {
  AgentThread agent(identity_);
  Program one(identity_), other(identity_), server(identity_);
  const cm::IdHandle listener = server.create();
  EXPECT_EQ(server.error(Bind{listener, cm::ipv4("127.0.0.1", kPort)}), 0);
  EXPECT_EQ(server.error(Listen{listener, 1}), 0);
  one.connecting(kPort);
  other.connecting(kPort);
  EXPECT_EQ(server.next().first, "CONNECT_REQUEST");
  EXPECT_FALSE(becomes_readable(server.fd(), 0)) << "until the other is asked again";
}

TEST_F(CmClientTest, TheAgentsClockEndsWhatTimeEnds) {
  AgentThread agent(identity_);
  Program client(identity_), server(identity_);
  server.listening(kPort);
  const cm::IdHandle active = client.create();
  // A packet lives for 2 ms.
  EXPECT_EQ(client.error(SetAckTimeout{active, 10}), 0);
  EXPECT_EQ(client.error(ResolveAddress{active, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  EXPECT_EQ(client.error(ResolveRoute{active}), 0);
  EXPECT_EQ(client.error(Connect{active, {.parameters = {.qpn = {0x111}}}}), 0);
  const cm::IdHandle passive = server.accept();
  for (const char* expected : {"ADDR_RESOLVED", "ROUTE_RESOLVED", "CONNECT_RESPONSE"})
    EXPECT_EQ(client.next().first, expected);
  EXPECT_EQ(client.error(Establish{active}), 0);
  EXPECT_EQ(client.error(Disconnect{active}), 0);
  EXPECT_EQ(server.error(Disconnect{passive}), 0);
  EXPECT_EQ(client.next().first, "DISCONNECTED");
  EXPECT_EQ(client.next().first, "TIMEWAIT_EXIT");
}

TEST_F(CmClientTest, APeerThatIsKilledHasDisconnected) {
  ChildProcess child([&](FileDescriptor report, FileDescriptor orders) {
    char order;
    if (::read(orders.get(), &order, 1) != 1) return;
    Program server(identity_);
    server.listening(kPort);
    agent::write_byte(report, 'l');
    server.accept();
    for (;;) ::pause();
  });
  AgentThread agent(identity_);
  child.tell('g');
  ASSERT_EQ(child.read_byte(), 'l');
  Program client(identity_);
  const cm::IdHandle active = client.connecting(kPort);
  EXPECT_EQ(client.next().first, "CONNECT_RESPONSE");
  EXPECT_EQ(client.error(Establish{active}), 0);
  child.kill_and_wait();
  EXPECT_EQ(client.next(), std::pair(std::string("DISCONNECTED"), active));
  // Its port is free at once.
  Program next(identity_);
  next.listening(kPort);
}

TEST_F(CmClientTest, AChannelsDescriptorIsLikeTheKernels) {
  AgentThread agent(identity_);
  Program client(identity_);
  EXPECT_FALSE(becomes_readable(client.fd(), 0));
  EXPECT_EQ(::fcntl(client.fd(), F_GETFD), FD_CLOEXEC);
  const FileDescriptor copy(::dup(client.fd()));
  const cm::IdHandle id = client.create();
  EXPECT_EQ(client.error(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  EXPECT_TRUE(becomes_readable(client.fd(), 0)) << "when the command is over, its event is there";
  EXPECT_TRUE(becomes_readable(copy.get(), 0));
  EXPECT_EQ(client.next().first, "ADDR_RESOLVED");
  EXPECT_FALSE(becomes_readable(client.fd(), 0));
  make_non_blocking(copy.get());
  EXPECT_EQ(client.channel().take_event().error(), EAGAIN);
}

TEST_F(CmClientTest, AChannelIsSilentWhenItsLastEventsIdentifierIsDestroyed) {
  AgentThread agent(identity_);
  Program client(identity_);
  const cm::IdHandle id = client.create(), other = client.create();
  EXPECT_EQ(client.error(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  EXPECT_EQ(client.error(Destroy{id, client.channel().handle()}), 0);
  EXPECT_FALSE(becomes_readable(client.fd(), 0));
  EXPECT_EQ(client.error(ResolveAddress{other, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  EXPECT_TRUE(becomes_readable(client.fd(), 0));
  EXPECT_EQ(client.next(), std::pair(std::string("ADDR_RESOLVED"), other));
}

TEST_F(CmClientTest, ADescriptorThatIsNoneCostsOneCommandAndNotTheAgent) {
  AgentThread agent(identity_);
  Program client(identity_);
  const cm::IdHandle id = client.create();
  EXPECT_EQ(client.error(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  const int socket = client.fd();
  client.channel().move_to(1'000'000);
  EXPECT_EQ(client.error(Destroy{id, client.channel().handle()}), EBADF);
  client.channel().move_to(socket);
  EXPECT_EQ(client.next().first, "ADDR_RESOLVED");
  EXPECT_EQ(client.error(Destroy{id, client.channel().handle(), 1}), 0);
}

TEST_F(CmClientTest, AClosedChannelIsTheEndOfItsIdentifiers) {
  AgentThread agent(identity_);
  Program client(identity_), server(identity_);
  server.listening(kPort);
  const auto [active, passive] = connect(client, server);
  server.close();
  EXPECT_EQ(client.next(), std::pair(std::string("DISCONNECTED"), active));
  Program next(identity_);
  next.listening(kPort);
}

// rping destroys its channel while a thread of its own waits there for the next event, and fails if that returns.
TEST_F(CmClientTest, WhoWaitsIsNotWokenByAnEventThatIsTakenBackNorByTheChannelsEnd) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "to close a descriptor that another thread waits at is a race, which it reports";
  AgentThread agent(identity_);
  Program first(identity_);
  for (int round = 0; round < 50; ++round) {
    auto opened = first.client().open_channel();
    ASSERT_TRUE(opened.ok());
    std::unique_ptr<CmChannel> channel = opened.take();
    CmChannel* const borrowed = channel.get();
    const cm::IdHandle id = channel->create(cm::PortSpace::tcp, cm::QpType::rc).value();
    std::atomic<pid_t> receiver = 0;
    std::atomic<int> error = -1;
    std::thread waiting([&] {
      receiver = ::gettid();
      error = borrowed->take_event().error();
    });
    while (!testing_support::is_asleep(receiver)) std::this_thread::yield();
    EXPECT_EQ(channel->call(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}).error(), 0);
    EXPECT_EQ(channel->call(Destroy{id, channel->handle()}).error(), 0);
    channel.reset();
    pthread_cancel(waiting.native_handle());
    waiting.join();
    EXPECT_LE(error, 0) << "it took the event, or waited on";
  }
}

TEST_F(CmClientTest, AWaitingThreadIsWokenByAnEvent) {
  AgentThread agent(identity_);
  Program client(identity_), server(identity_);
  server.listening(kPort);
  std::thread waiting([&] { server.accept(); });
  client.connecting(kPort);
  EXPECT_EQ(client.next().first, "CONNECT_RESPONSE");
  waiting.join();
}

TEST_F(CmClientTest, AThreadThatIsCancelledWhileItWaitsTakesNoEventWithIt) {
  AgentThread agent(identity_);
  Program client(identity_);
  bool returned = false;
  std::thread waiting([&] {
    client.next();
    returned = true;
  });
  pthread_cancel(waiting.native_handle());
  waiting.join();
  EXPECT_FALSE(returned);
  client.resolved(kPort);
}

TEST_F(CmClientTest, CommandsAreNoCancellationPoints) {
  AgentThread agent(identity_);
  Program client(identity_);
  EXPECT_TRUE(testing_support::is_not_cancelled_in([&] {
    const cm::IdHandle id = client.create();
    EXPECT_EQ(client.error(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
    EXPECT_EQ(client.error(Destroy{id, client.channel().handle()}), 0);
    EXPECT_TRUE(client.client().open_channel().ok());
  }));
}

TEST_F(CmClientTest, WhatWasTheAgentsEndsWithItAndANewChannelIsTheNextAgents) {
  std::optional<AgentThread> agent(std::in_place, identity_);
  Program client(identity_);
  const cm::IdHandle id = client.create();
  agent.reset();
  EXPECT_TRUE(becomes_readable(client.fd(), 0));
  EXPECT_EQ(client.channel().take_event().error(), ENODEV);
  EXPECT_EQ(client.error(Query{id}), ENODEV);
  EXPECT_EQ(client.client().open_channel().error(), ENOENT) << "there is no program to start";
  agent.emplace(identity_);
  const Result<std::unique_ptr<CmChannel>> next = client.client().open_channel();
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next.value()->create(cm::PortSpace::tcp, cm::QpType::rc).ok());
  EXPECT_EQ(client.channel().create(cm::PortSpace::tcp, cm::QpType::rc).error(), ENODEV);
  EXPECT_EQ(client.error(Query{id}), ENODEV) << "not another's of that number";
}

TEST_F(CmClientTest, AChildOfAForkLeavesTheParentsConnectionsAlone) {
  AgentThread agent(identity_);
  Program client(identity_);
  const cm::IdHandle id = client.create();
  EXPECT_EQ(client.error(ResolveAddress{id, {{}, cm::ipv4("127.0.0.1", kPort), {}, false}}), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = client.error(Query{id}) == ENODEV && client.channel().take_event().error() == ENODEV &&
                         client.client().open_channel().error() == ENODEV;
    client.close();
    ::_exit(refused ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(client.next().first, "ADDR_RESOLVED");
}

TEST_F(CmClientTest, WithoutDescriptorsAChannelIsNotOpenedAndTheOthersGoOn) {
  if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer cannot do without";
  AgentThread agent(identity_);
  Program client(identity_);
  {
    const testing_support::DescriptorHoard hoard;
    EXPECT_EQ(client.client().open_channel().error(), EMFILE);
    client.resolved(kPort);
  }
  EXPECT_TRUE(client.client().open_channel().ok());
}

TEST_F(CmClientTest, ManyThreadsShareAClient) {
  AgentThread agent(identity_);
  CmClient shared(identity_, kNoAgent);
  constexpr int kThreads = 4, kRounds = 25;
  Program server(identity_);
  server.listening(kPort);
  std::thread serving([&] {
    for (int i = 0; i < kThreads * kRounds; ++i) {
      // Accepts and forgets: only requests are looked at.
      std::pair<std::string, cm::IdHandle> event;
      do {
        event = server.next();
      } while (event.first != "CONNECT_REQUEST");
      EXPECT_EQ(server.error(Reject{event.second, wire::RejectReason::consumer_reject, {}}), 0);
      EXPECT_EQ(server.error(Destroy{event.second, server.channel().handle()}), 0);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        Program client(identity_);
        const cm::IdHandle id = client.connecting(kPort);
        EXPECT_EQ(client.next().first, "REJECTED 28");
        EXPECT_EQ(client.error(Destroy{id, client.channel().handle()}), 0);
        EXPECT_TRUE(shared.open_channel().ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  serving.join();
}

// The agent's descriptors are this process's too.
TEST_F(CmClientTest, NoDescriptorStaysOpen) {
  AgentThread agent(identity_);
  { Program first(identity_); }
  agent::await_turn(identity_);
  const size_t before = agent::descriptors_of().size();
  constexpr size_t kRounds = 20;
  for (size_t i = 0; i < kRounds; ++i) {
    Program client(identity_), server(identity_);
    server.listening(kPort);
    connect(client, server);
  }
  agent::await_turn(identity_);
  EXPECT_LT(agent::descriptors_of().size(), before + kRounds / 2) << "the agent may not have seen the last ones go";
}

}  // namespace
}  // namespace verbatim
