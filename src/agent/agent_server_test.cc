#include "agent/agent_server.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent/agent_test_support.h"
#include "agent/cm_protocol.h"

namespace verbatim::agent {
namespace {

constexpr Slot kOne{11}, kTwo{22};

class AgentServerTest : public testing::Test {
 protected:
  // One after the other: Alice asks for Bob, and both have read everything.
  static void introduce(BareMember& alice, BareMember& bob) {
    alice.say(Introduce{kTwo.value});
    bob.expect<Peer>();
    alice.expect<Peer>();
    bob.expect<PeerSlot>();
  }

  // More DEADs than a socket holds, unread.
  static void fill_socket_of(BareMember& member) {
    for (uint64_t i = 0; i < kMoreThanASocketHolds; ++i) {
      const Frame frame = encode(ToAgent(KnownPeer{1'000'000 + i, 1, INT32_MAX}));  // no such process
      Status sent;
      do {
        sent = send_packet(member.socket(), frame, {});
      } while (sent.error == EAGAIN);
      ASSERT_TRUE(sent.ok());
    }
  }
  static constexpr uint64_t kMoreThanASocketHolds = 2000;

  static ino_t inode(const FileDescriptor& fd) {
    struct stat file {};
    EXPECT_EQ(::fstat(fd.get(), &file), 0);
    return file.st_ino;
  }

  const AgentIdentity identity_ = test_identity();
};

TEST_F(AgentServerTest, IntroducesTwoMembersWithTheirMemoryAndSlots) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne), bob(identity_, kTwo);
  await_turn(identity_);
  alice.say(Introduce{kTwo.value});

  const Peer at_bob = bob.expect<Peer>();
  EXPECT_EQ(at_bob.incarnation, alice.incarnation().value);
  EXPECT_EQ(at_bob.pid, ::getpid());
  EXPECT_EQ(at_bob.segment_size, 4096u);
  EXPECT_EQ(at_bob.slots.list(), std::vector<Slot>{kOne});
  EXPECT_FALSE(at_bob.knows_us) << "it may not be used";
  ASSERT_EQ(bob.received().size(), 2u);
  EXPECT_EQ(inode(bob.received()[0]), inode(alice.segment()));

  const Peer at_alice = alice.expect<Peer>();
  EXPECT_EQ(at_alice.incarnation, bob.incarnation().value);
  EXPECT_EQ(at_alice.slots.list(), std::vector<Slot>{kTwo});
  EXPECT_TRUE(at_alice.knows_us);
  EXPECT_EQ(inode(alice.received()[0]), inode(bob.segment()));
  EXPECT_EQ(bob.expect<PeerSlot>().slot, kOne.value);
}

TEST_F(AgentServerTest, AnIntroductionWaitsForTheSlotsOwner) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne);
  alice.say(Introduce{kTwo.value});
  EXPECT_EQ(alice.expect<Unowned>().slot, kTwo.value);
  BareMember bob(identity_, kTwo);
  EXPECT_EQ(alice.expect<Peer>().incarnation, bob.incarnation().value);
}

TEST_F(AgentServerTest, TheAskerHearsNothingUntilTheOwnersSocketHasTheAskersIntroduction) {
  AgentThread agent(identity_);
  BareMember owner(identity_, kTwo);
  fill_socket_of(owner);
  for (uint64_t i = 0; i < kMoreThanASocketHolds / 50; ++i) await_turn(identity_);  // a turn reads some of it
  BareMember asker(identity_, kOne);
  asker.say(Introduce{kTwo.value});
  await_turn(identity_);
  EXPECT_FALSE(asker.has_message());

  for (uint64_t i = 0; i < kMoreThanASocketHolds; ++i) {
    ASSERT_FALSE(asker.has_message() && !owner.has_message()) << "the owner's socket is empty, it was never told";
    owner.expect<Dead>();
  }
  asker.expect<Peer>();
  ASSERT_TRUE(owner.has_message());
  EXPECT_EQ(owner.expect<Peer>().incarnation, asker.incarnation().value);
}

TEST_F(AgentServerTest, HangingUpIsDeathToAcquaintancesOnly) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne), bob(identity_, kTwo), stranger(identity_, {33});
  await_turn(identity_);
  introduce(alice, bob);
  bob.hang_up();
  const Dead dead = alice.expect<Dead>();
  EXPECT_EQ(dead.incarnation, bob.incarnation().value);
  EXPECT_EQ(dead.pid, ::getpid());
  await_turn(identity_);
  EXPECT_FALSE(stranger.has_message());
}

TEST_F(AgentServerTest, AProcessIsDeadThoughItsForkedChildHoldsItsSocket) {
  ChildProcess member([&](FileDescriptor report, FileDescriptor orders) {
    char order;
    if (::read(orders.get(), &order, 1) != 1) return;
    BareMember bob(identity_, kTwo);
    const pid_t holder = ::fork();
    if (holder == 0) {
      [[maybe_unused]] const ssize_t ended = ::read(orders.get(), &order, 1);  // until the test closes it
      ::_exit(0);
    }
    write_byte(report, 'h');
    for (;;) ::pause();
  });
  AgentThread agent(identity_);
  member.tell('g');
  ASSERT_EQ(member.read_byte(), 'h');
  BareMember alice(identity_, kOne);
  alice.say(Introduce{kTwo.value});
  EXPECT_EQ(alice.expect<Peer>().pid, member.pid());
  const pid_t pid = member.pid();
  member.kill_and_wait();
  EXPECT_EQ(alice.expect<Dead>().pid, pid);
}

TEST_F(AgentServerTest, ASlotThatALiveMemberKeepsIsRefused) {
  AgentThread agent(identity_, {.linger = Duration::milliseconds(60'000), .slot_grace = Duration::milliseconds(20)});
  BareMember alice(identity_, kOne);
  await_turn(identity_);
  BareMember thief(identity_, kOne);
  thief.expect_refusal(Refusal::slot_taken);
  BareMember bob(identity_, kTwo);
  await_turn(identity_);
  bob.say(AddSlot{kOne.value});
  bob.expect_refusal(Refusal::slot_taken);
  EXPECT_FALSE(alice.has_message());
}

TEST_F(AgentServerTest, ASlotsNextOwnerWaitsForTheFormerOnesEnd) {
  AgentThread agent(identity_);
  BareMember former(identity_, kTwo);
  await_turn(identity_);
  BareMember alice(identity_, kOne), next(identity_, kTwo);
  await_turn(identity_);
  EXPECT_FALSE(next.has_message());
  former.hang_up();
  await_turn(identity_);
  alice.say(Introduce{kTwo.value});
  EXPECT_EQ(alice.expect<Peer>().incarnation, next.incarnation().value);
}

TEST_F(AgentServerTest, WhoGivesUpWaitingForASlotIsForgotten) {
  AgentThread agent(identity_);
  BareMember former(identity_, kTwo);
  await_turn(identity_);
  BareMember next(identity_, kTwo);
  await_turn(identity_);
  next.hang_up();
  await_turn(identity_);
  former.hang_up();
  BareMember alice(identity_, kOne);
  alice.say(Introduce{kTwo.value});
  EXPECT_EQ(alice.expect<Unowned>().slot, kTwo.value);
}

TEST_F(AgentServerTest, AMalformedMessageCostsItsSenderTheConnectionAndNobodyElse) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne), bob(identity_, kTwo);
  await_turn(identity_);
  introduce(alice, bob);
  ASSERT_EQ(::send(bob.socket(), "nonsense", 8, MSG_NOSIGNAL), 8);
  bob.expect_refusal(Refusal::malformed_message);
  await_turn(identity_);
  EXPECT_FALSE(alice.has_message());  // Bob lives
}

TEST_F(AgentServerTest, AnythingButAnHelloAtFirstAndAHelloLaterIsMalformed) {
  AgentThread agent(identity_);
  BareMember early(identity_);
  early.expect<Welcome>();
  early.say(Introduce{kOne.value});
  early.expect_refusal(Refusal::malformed_message);
  BareMember again(identity_, kOne);
  again.say_hello(kTwo);
  again.expect_refusal(Refusal::malformed_message);
}

TEST_F(AgentServerTest, AHelloOfAnotherStartTimeIsOfAnotherProcess) {
  AgentThread agent(identity_);
  BareMember liar(identity_);
  liar.expect<Welcome>();
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC));
  liar.say(Hello{.incarnation = 5, .start_time = 1, .segment_size = 1, .slots = SlotList::of(std::array{kOne})},
           std::array{event.get(), event.get()});
  liar.expect_refusal(Refusal::other_process);
}

TEST_F(AgentServerTest, AnIncarnationIsNotTakenTwice) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne);
  await_turn(identity_);
  BareMember twin(identity_);
  twin.set_incarnation(alice.incarnation());
  twin.expect<Welcome>();
  twin.say_hello(kTwo);
  twin.expect_refusal(Refusal::incarnation_taken);
}

TEST_F(AgentServerTest, WhoNeverReadsIsCutOffButNotDeclaredDeadAndMayComeBack) {
  AgentThread agent(identity_, {.linger = Duration::milliseconds(60'000), .queue_limit = 50});
  BareMember alice(identity_, kOne), bob(identity_, kTwo);
  await_turn(identity_);
  introduce(alice, bob);
  Status sent;
  for (uint64_t i = 0; sent.ok() || sent.error == EAGAIN; ++i) {
    sent = send_packet(bob.socket(), encode(ToAgent(KnownPeer{1'000'000 + i, 1, INT32_MAX})), {});
  }
  EXPECT_TRUE(sent.error == EPIPE || sent.error == ECONNRESET) << sent.error;
  await_turn(identity_);
  EXPECT_FALSE(alice.has_message());

  BareMember back(identity_);
  back.set_incarnation(bob.incarnation());
  back.expect<Welcome>();
  back.say_hello(kTwo);
  back.say(KnownPeer{alice.incarnation().value, read_own_facts().value().start_time, ::getpid()});
  EXPECT_EQ(back.expect<PeerSlot>().slot, kOne.value);
  back.hang_up();
  EXPECT_EQ(alice.expect<Dead>().incarnation, bob.incarnation().value);
}

TEST_F(AgentServerTest, AKnownPeerThatIsNoMoreIsDeadAtOnce) {
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne);
  alice.say(KnownPeer{5, 1, INT32_MAX});
  EXPECT_EQ(alice.expect<Dead>().incarnation, 5u);
  alice.say(KnownPeer{6, read_own_facts().value().start_time + 1, ::getpid()});  // the number was given to another
  EXPECT_EQ(alice.expect<Dead>().incarnation, 6u);
}

TEST_F(AgentServerTest, AKnownPeerThatLivesIsDeadWhenItEnds) {
  ChildProcess peer([](FileDescriptor) {
    for (;;) ::pause();
  });
  AgentThread agent(identity_);
  BareMember alice(identity_, kOne), bob(identity_, kTwo);
  const uint64_t start_time = read_start_time(peer.pid()).value();
  alice.say(KnownPeer{5, start_time, peer.pid()});
  bob.say(KnownPeer{5, start_time, peer.pid()});
  await_turn(identity_);
  EXPECT_FALSE(alice.has_message());
  peer.kill_and_wait();
  EXPECT_EQ(alice.expect<Dead>().incarnation, 5u);
  EXPECT_EQ(bob.expect<Dead>().incarnation, 5u);
}

TEST_F(AgentServerTest, AKnownPeerMayRegisterLater) {
  AgentThread agent(identity_);
  const uint64_t start_time = read_own_facts().value().start_time;
  BareMember alice(identity_, kOne), bob(identity_);
  alice.say(KnownPeer{bob.incarnation().value, start_time, ::getpid()});
  await_turn(identity_);
  bob.expect<Welcome>();
  bob.say_hello(kTwo);
  bob.say(KnownPeer{alice.incarnation().value, start_time, ::getpid()});
  EXPECT_EQ(bob.expect<PeerSlot>().slot, kOne.value);
  EXPECT_EQ(alice.expect<PeerSlot>().slot, kTwo.value);
  bob.hang_up();
  EXPECT_EQ(alice.expect<Dead>().incarnation, bob.incarnation().value);
}

// What the agent says to a process that first does `become` and then connects.
void expect_refusal_of(const AgentIdentity& identity, const std::function<bool()>& become, Refusal refusal) {
  ChildProcess other([&](FileDescriptor report, FileDescriptor orders) {
    char order;
    if (!become()) return write_byte(report, 'x');
    write_byte(report, 'r');
    if (::read(orders.get(), &order, 1) != 1) return;
    BareMember member(identity);
    const ToMember answer = member.next();
    const Refused* refused = std::get_if<Refused>(&answer);
    write_byte(report, static_cast<char>(refused ? refused->reason + 1 : 0));
  });
  if (other.read_byte() == 'x') GTEST_SKIP() << "this user may not become what the test needs";
  AgentThread agent(identity);
  other.tell('g');
  EXPECT_EQ(other.read_byte(), static_cast<char>(refusal) + 1);
}

TEST_F(AgentServerTest, AProcessOfAnotherUserIsRefused) {
  expect_refusal_of(
      identity_, [] { return ::geteuid() == 0 && ::setresuid(65534, 65534, 65534) == 0; }, Refusal::other_user);
}

TEST_F(AgentServerTest, AProcessThatKeptAnotherSavedUserIsRefused) {
  expect_refusal_of(
      identity_, [] { return ::setresuid(0, 0, 65534) == 0; }, Refusal::other_user);
}

TEST_F(AgentServerTest, AProcessOfAnotherUserNamespaceIsRefused) {
  expect_refusal_of(
      identity_, [] { return ::unshare(CLONE_NEWUSER) == 0; }, Refusal::other_namespace);
}

TEST_F(AgentServerTest, AProcessOfAnotherPidNamespaceIsRefused) {
  const auto become = [] {
    if (::unshare(CLONE_NEWPID) != 0) return false;
    const pid_t inner = ::fork();
    if (inner <= 0) return inner == 0;  // the first process of the new namespace goes on
    ::waitpid(inner, nullptr, 0);
    ::_exit(0);
  };
  expect_refusal_of(identity_, become, Refusal::other_namespace);
}

TEST_F(AgentServerTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  ChildProcess member([&](FileDescriptor report, FileDescriptor orders) {
    char order;
    if (::read(orders.get(), &order, 1) != 1) return;
    BareMember late(identity_);
    write_byte(report, 'c');
    late.expect<Welcome>();
    write_byte(report, 'w');
  });
  AgentThread agent(identity_);
  await_turn(identity_);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const clock_t before = ::clock();
  member.tell('g');
  EXPECT_EQ(member.read_byte(), 'c');
  pollfd never{-1, 0, 0};
  ::poll(&never, 1, 500);  // the time in which a spinning agent would use half a second of CPU
  const clock_t used = ::clock() - before;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LT(used, CLOCKS_PER_SEC / 5);
  EXPECT_EQ(member.read_byte(), 'w');
}

TEST_F(AgentServerTest, ItEndsWhenTheLastConnectionHasBeenGoneForAWhile) {
  AgentThread agent(identity_, {.linger = Duration::milliseconds(50)});
  {
    BareMember alice(identity_, kOne);
    await_turn(identity_);
    pollfd never{-1, 0, 0};
    ::poll(&never, 1, 150);
    EXPECT_FALSE(agent.ended());
  }
  agent.join();
  EXPECT_TRUE(agent.ended());
}

class ManagingConnection : public AgentServerTest {
 protected:
  // A bare connection that began with MANAGE.
  static BareMember managing(const AgentIdentity& identity) {
    BareMember program(identity);
    program.expect<Welcome>();
    program.say(Manage{read_own_facts().value().start_time});
    return program;
  }
  static void say(const BareMember& program, const commands::Command& command) {
    ASSERT_TRUE(send_packet(program.socket(), encode(command), {}).ok());
  }
  static commands::Answer answer_to(const BareMember& program) {
    EXPECT_TRUE(becomes_readable(program.socket()));
    Result<Packet> packet = receive_packet(program.socket());
    EXPECT_TRUE(packet.ok());
    if (!packet.ok()) return commands::Failure{packet.error()};
    const auto answer = decode_answer(packet.value().frame.view(), packet.value().descriptors.size());
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? answer.value() : commands::Failure{answer.error()};
  }
};

TEST_F(ManagingConnection, HasAnAnswerToEachCommandInTheirOrder) {
  AgentThread agent(identity_);
  BareMember program = managing(identity_);
  say(program, commands::OpenChannel{});
  say(program, commands::Query{{5}});
  EXPECT_TRUE(std::holds_alternative<cm::Channel>(answer_to(program)));
  const commands::Answer second = answer_to(program);
  ASSERT_TRUE(std::holds_alternative<commands::Failure>(second));
  EXPECT_EQ(std::get<commands::Failure>(second).error, ENOENT);
}

TEST_F(ManagingConnection, NonsenseCostsItsSenderTheConnectionAndNobodyElse) {
  AgentThread agent(identity_);
  BareMember alice = managing(identity_), bob = managing(identity_), carol = managing(identity_);
  ASSERT_EQ(::send(alice.socket(), "nonsense", 8, MSG_NOSIGNAL), 8);
  alice.expect_refusal(Refusal::malformed_message);
  bob.say(Introduce{kOne.value});
  bob.expect_refusal(Refusal::malformed_message);
  say(carol, commands::OpenChannel{});
  EXPECT_TRUE(std::holds_alternative<cm::Channel>(answer_to(carol)));
}

TEST_F(ManagingConnection, IsNoMembersAndAMembersIsNone) {
  AgentThread agent(identity_);
  BareMember program = managing(identity_);
  program.say_hello(kOne);
  program.expect_refusal(Refusal::malformed_message);
  BareMember member(identity_, kOne);
  await_turn(identity_);
  member.say(Manage{read_own_facts().value().start_time});
  member.expect_refusal(Refusal::malformed_message);
  BareMember early(identity_);
  early.expect<Welcome>();
  say(early, commands::OpenChannel{});
  early.expect_refusal(Refusal::malformed_message);
  BareMember liar(identity_);
  liar.expect<Welcome>();
  liar.say(Manage{1});
  liar.expect_refusal(Refusal::other_process);
}

TEST_F(ManagingConnection, WhoNeverReadsIsCutOff) {
  AgentThread agent(identity_, {.linger = Duration::milliseconds(60'000), .queue_limit = 50});
  BareMember program = managing(identity_);
  Status sent;
  while (sent.ok() || sent.error == EAGAIN) {
    sent = send_packet(program.socket(), encode(commands::Command(commands::Query{{5}})), {});
  }
  EXPECT_TRUE(sent.error == EPIPE || sent.error == ECONNRESET) << sent.error;
}

TEST_F(ManagingConnection, KeepsTheAgentFromEnding) {
  AgentThread agent(identity_, {.linger = Duration::milliseconds(50)});
  {
    BareMember program = managing(identity_);
    await_turn(identity_);
    pollfd never{-1, 0, 0};
    ::poll(&never, 1, 150);
    EXPECT_FALSE(agent.ended());
  }
  agent.join();
  EXPECT_TRUE(agent.ended());
}

}  // namespace
}  // namespace verbatim::agent
