// The real agent process: how it is started, what it inherits, when it ends, and what its death costs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/time.h>
#include <sys/types.h>
#include <termios.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "agent/agent_test_support.h"
#include "agent/cm_client.h"
#include "agent/launcher.h"

namespace verbatim::agent {
namespace {

constexpr const char* kAgentPath = VERBATIM_AGENT_PATH;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string proc(pid_t pid, const char* name) { return read_file("/proc/" + std::to_string(pid) + "/" + name); }

class AgentProcessTest : public testing::Test {
 protected:
  ~AgentProcessTest() override {
    for (pid_t pid : agents()) ::kill(pid, SIGKILL);
  }

  // Every live agent of this test: the tag in its environment is its own.
  std::vector<pid_t> agents() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0 || proc(pid, "comm") != "verbatim-agent\n") continue;
      if (proc(pid, "environ").find(identity_.tag) != std::string::npos) found.push_back(pid);
    }
    return found;
  }

  pid_t the_agent() const {
    const std::vector<pid_t> found = agents();
    EXPECT_EQ(found.size(), 1u);
    return found.size() == 1 ? found[0] : 0;
  }

  void kill_the_agent() const {
    const pid_t pid = the_agent();
    const Result<FileDescriptor> pidfd = open_pidfd(pid);
    ASSERT_TRUE(pidfd.ok());
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_TRUE(becomes_readable(pidfd.value().get()));
  }

  std::unique_ptr<Member> start_member(Slot slot) const {
    auto member = std::make_unique<Member>(identity_, slot, kAgentPath);
    const Status started = member->client_.start();
    EXPECT_TRUE(started.ok()) << started.error;
    return member;
  }

  // A process that is a member and handles what comes until it is killed.
  std::unique_ptr<ChildProcess> start_member_process(Slot slot) const {
    auto child = std::make_unique<ChildProcess>([&](FileDescriptor report) {
      const std::unique_ptr<Member> member = start_member(slot);
      write_byte(report, 's');
      while (becomes_readable(member->client_.fd(), -1)) member->client_.receive(*member);
    });
    EXPECT_EQ(child->read_byte(), 's');
    return child;
  }

  const AgentIdentity identity_ = test_identity();
};

TEST_F(AgentProcessTest, TwentyProcessesThatStartAtOnceGetOneAgentAndMeet) {
  constexpr int kProcesses = 20;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(std::make_unique<ChildProcess>([&, i](FileDescriptor report, FileDescriptor orders) {
      char order;
      if (::read(orders.get(), &order, 1) != 1) return;
      const Slot slot{static_cast<uint16_t>(100 + i)};
      const std::unique_ptr<Member> member = start_member(slot);
      const int next = (i + 1) % kProcesses;
      ASSERT_TRUE(member->client_.introduce({static_cast<uint16_t>(100 + next)}).ok());
      member->await_peers(2);  // whom it asked for, and who asked for it
      write_byte(report, testing::Test::HasFailure() ? 'n' : 'y');
      if (::read(orders.get(), &order, 1) != 1) return;
    }));
  }
  for (auto& child : children) child->tell('g');
  for (auto& child : children) EXPECT_EQ(child->read_byte(), 'y');
  EXPECT_EQ(agents().size(), 1u);
}

// Makes a terminal the caller's own, as a shell does: its end, and the caller's, hang up.
FileDescriptor take_new_terminal() {
  FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  EXPECT_EQ(::grantpt(terminal.get()), 0);
  EXPECT_EQ(::unlockpt(terminal.get()), 0);
  EXPECT_NE(::setsid(), -1);
  const FileDescriptor program_side(::open(::ptsname(terminal.get()), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::tcgetsid(terminal.get()), ::getpid());
  return terminal;
}

TEST_F(AgentProcessTest, ItOutlivesTheTerminalAndTheSessionItWasStartedIn) {
  auto starter = std::make_unique<ChildProcess>([&](FileDescriptor report, FileDescriptor orders) {
    const FileDescriptor terminal = take_new_terminal();
    const std::unique_ptr<Member> alice = start_member({1});
    write_byte(report, testing::Test::HasFailure() ? 'n' : 'y');
    char order;
    [[maybe_unused]] const ssize_t ended = ::read(orders.get(), &order, 1);
  });
  ASSERT_EQ(starter->read_byte(), 'y');
  const pid_t agent = the_agent();
  ASSERT_NE(::getsid(agent), ::getsid(0));
  const std::unique_ptr<Member> bob = start_member({2});
  const Result<FileDescriptor> pidfd = open_pidfd(agent);
  ASSERT_TRUE(pidfd.ok());
  starter.reset();
  EXPECT_FALSE(becomes_readable(pidfd.value().get(), 200));
  await_turn(identity_);
}

TEST_F(AgentProcessTest, ItEndsAMomentAfterTheLastMemberHasGone) {
  std::unique_ptr<Member> alice = start_member({1}), bob = start_member({2});
  const Result<FileDescriptor> pidfd = open_pidfd(the_agent());
  ASSERT_TRUE(pidfd.ok());
  alice.reset();
  EXPECT_FALSE(becomes_readable(pidfd.value().get(), 1500));
  bob.reset();
  EXPECT_TRUE(becomes_readable(pidfd.value().get()));
  EXPECT_TRUE(agents().empty());
}

TEST_F(AgentProcessTest, AProgramThatOpensAnEventChannelStartsItAndKeepsIt) {
  auto client = std::make_unique<CmClient>(identity_, kAgentPath);
  Result<std::unique_ptr<CmChannel>> channel = client->open_channel();
  ASSERT_TRUE(channel.ok()) << channel.error();
  const Result<FileDescriptor> pidfd = open_pidfd(the_agent());
  ASSERT_TRUE(pidfd.ok());
  EXPECT_FALSE(becomes_readable(pidfd.value().get(), 1500));
  channel.value().reset();
  client.reset();
  EXPECT_TRUE(becomes_readable(pidfd.value().get()));
}

TEST_F(AgentProcessTest, ItsDeathEndsEventChannelsAndTheNextOneOpensNewOnes) {
  CmClient client(identity_, kAgentPath);
  const Result<std::unique_ptr<CmChannel>> channel = client.open_channel();
  ASSERT_TRUE(channel.ok()) << channel.error();
  kill_the_agent();
  EXPECT_EQ(channel.value()->take_event().error(), ENODEV);
  const Result<std::unique_ptr<CmChannel>> next = client.open_channel();
  ASSERT_TRUE(next.ok()) << next.error();
  EXPECT_TRUE(next.value()->create(cm::PortSpace::tcp, cm::QpType::rc).ok());
  EXPECT_EQ(channel.value()->create(cm::PortSpace::tcp, cm::QpType::rc).error(), ENODEV);
}

TEST_F(AgentProcessTest, ItsDeathCostsNobodyAPeerAndHidesNoDeath) {
  const std::unique_ptr<Member> alice = start_member({1});
  const std::unique_ptr<ChildProcess> bob = start_member_process({2});
  const std::unique_ptr<ChildProcess> victim = start_member_process({3});
  ASSERT_TRUE(alice->client_.introduce({2}).ok());
  alice->await_peers(1);
  ASSERT_TRUE(alice->client_.introduce({3}).ok());
  alice->await_peers(2);
  const Incarnation bobs = alice->peers_[0].incarnation, victims = alice->peers_[1].incarnation;

  kill_the_agent();
  victim->kill_and_wait();
  const std::unique_ptr<Member> newcomer = start_member({4});
  alice->await_dead(1);
  EXPECT_EQ(alice->dead_, std::vector<Incarnation>{victims});
  ASSERT_TRUE(newcomer->client_.introduce({2}).ok());
  newcomer->await_peers(1);  // Bob has come to the new agent by himself
  EXPECT_EQ(newcomer->peers_[0].incarnation, bobs);
  EXPECT_EQ(agents().size(), 1u);

  EXPECT_EQ(alice->dead_.size(), 1u);
  bob->kill_and_wait();
  alice->await_dead(2);
  EXPECT_EQ(alice->dead_[1], bobs);
  newcomer->await_dead(1);
  EXPECT_TRUE(alice->refusals_.empty());
}

TEST_F(AgentProcessTest, MembersSurviveTheDeathOfManyAgentsInARow) {
  const std::unique_ptr<Member> alice = start_member({1}), bob = start_member({2});
  ASSERT_TRUE(alice->client_.introduce({2}).ok());
  alice->await_peers(1);
  bob->await_slots(1);
  for (int i = 0; i < 20; ++i) {
    kill_the_agent();
    alice->client_.receive(*alice);
    bob->client_.receive(*bob);
  }
  const Slot added{3};
  bob->client_.add_slot(added);
  alice->await_slots(1);
  EXPECT_EQ(alice->slots_[0], std::pair(bob->incarnation_, added));
  EXPECT_TRUE(alice->dead_.empty() && bob->dead_.empty());
  EXPECT_TRUE(alice->refusals_.empty() && bob->refusals_.empty());
}

std::atomic<int> child_signals{0};

std::vector<int> blocked_signals() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::vector<int> blocked;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigismember(&mask, signal) == 1) blocked.push_back(signal);
  }
  return blocked;
}

TEST_F(AgentProcessTest, TheProgramSeesNeitherAChildNorItsSignals) {
  struct sigaction action {
  }, former{};
  action.sa_handler = [](int) { ++child_signals; };
  ASSERT_EQ(::sigaction(SIGCHLD, &action, &former), 0);
  const std::vector<int> blocked_before = blocked_signals();
  const std::unique_ptr<Member> alice = start_member({1});
  EXPECT_EQ(blocked_signals(), blocked_before);

  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  kill_the_agent();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(child_signals, 0);
  ASSERT_EQ(::sigaction(SIGCHLD, &former, nullptr), 0);
}

TEST_F(AgentProcessTest, ItIsADaemonWithNothingOfTheProgram) {
  ::setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
  ::setenv("PROGRAM_SECRET", "x", 1);
  ::setenv("VERBATIM_LOG", "off", 1);
  const std::unique_ptr<Member> alice = start_member({1});
  await_turn(identity_);
  const pid_t agent = the_agent();

  EXPECT_EQ(::getpgid(agent), agent);
  EXPECT_EQ(::getsid(agent), ::getsid(0)) << "the kernel may schedule another session apart from ours";
  EXPECT_EQ(proc(agent, "status").find("PPid:\t" + std::to_string(::getpid()) + "\n"), std::string::npos);
  EXPECT_NE(proc(agent, "status").find("SigBlk:\t0000000000000000\n"), std::string::npos);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/" + std::to_string(agent) + "/cwd"), "/");
  const std::string environment = proc(agent, "environ");
  EXPECT_EQ(environment.find("LD_LIBRARY_PATH"), std::string::npos);
  EXPECT_EQ(environment.find("PROGRAM_SECRET"), std::string::npos);
  EXPECT_NE(environment.find("VERBATIM_LOG=off"), std::string::npos);
}

TEST_F(AgentProcessTest, ItInheritsNoDescriptor) {
  const FileDescriptor inheritable(::memfd_create("of-the-program", 0));
  const std::unique_ptr<Member> alice = start_member({1}), bob = start_member({2});
  ASSERT_TRUE(alice->client_.introduce({2}).ok());
  alice->await_peers(1);  // the agent has everything of both
  const std::vector<std::string> held = descriptors_of(std::to_string(the_agent()));
  const auto count = [&](std::string_view what) {
    return std::ranges::count_if(held, [&](const std::string& target) { return target.find(what) != target.npos; });
  };
  EXPECT_EQ(count("of-the-program"), 0);
  EXPECT_EQ(count("/dev/null"), 3);
  EXPECT_EQ(count("memfd:segment"), 2);
  EXPECT_EQ(count("socket:"), 3);  // it listens, and the two
  EXPECT_EQ(count("pipe:"), 0);
}

TEST_F(AgentProcessTest, TheProgramsDescriptorsAreTheClientsOwnAndAllGoWithIt) {
  { const std::unique_ptr<Member> first = start_member({1}); }
  const size_t before = descriptors_of().size();
  {
    const std::unique_ptr<Member> alice = start_member({1});
    // segment, doorbell; epoll, eventfd, socket, two set aside
    constexpr size_t kOfTheTest = 2, kOfTheClient = 5;
    EXPECT_EQ(descriptors_of().size(), before + kOfTheTest + kOfTheClient);
    kill_the_agent();
    alice->client_.receive(*alice);
    EXPECT_EQ(descriptors_of().size(), before + kOfTheTest + kOfTheClient);
  }
  EXPECT_EQ(descriptors_of().size(), before);
}

TEST_F(AgentProcessTest, AProgramWithoutStandardStreamsStartsItToo) {
  ChildProcess child([&](FileDescriptor report) {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    const std::unique_ptr<Member> alice = start_member({1});
    await_turn(identity_);
    const std::vector<std::string> held = descriptors_of(std::to_string(the_agent()));
    const bool right = std::ranges::count(held, "/dev/null") == 3;
    write_byte(report, right && !testing::Test::HasFailure() ? 'y' : 'n');
  });
  EXPECT_EQ(child.read_byte(), 'y');
}

std::atomic<int> alarms{0};

TEST_F(AgentProcessTest, SignalHandlersOfTheProgramDoNotDisturbTheStart) {
  struct sigaction action {
  }, former{};
  action.sa_handler = [](int) { ++alarms; };
  ASSERT_EQ(::sigaction(SIGALRM, &action, &former), 0);
  const itimerval often{{0, 200}, {0, 200}}, never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  const std::unique_ptr<Member> alice = start_member({1});
  for (int i = 0; i < 10; ++i) {
    kill_the_agent();
    alice->client_.receive(*alice);
  }
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &former, nullptr), 0);
  EXPECT_GT(alarms, 0);
  EXPECT_TRUE(alice->refusals_.empty());
}

TEST_F(AgentProcessTest, AStoppedAgentIsNotWaitedForForEver) {
  const std::unique_ptr<Member> alice = start_member({1});
  const pid_t agent = the_agent();
  ASSERT_EQ(::kill(agent, SIGSTOP), 0);
  Member late(identity_, {2}, kAgentPath);
  EXPECT_EQ(late.client_.start().error, ETIMEDOUT);
  ASSERT_EQ(::kill(agent, SIGCONT), 0);
  EXPECT_TRUE(late.client_.start().ok());
}

// Who listens at the agent's address after `become`; reports what comes after a WELCOME: 'm'essage or 'n'othing.
void impostor(const AgentIdentity& identity, const std::function<bool()>& become, const FileDescriptor& report) {
  if (!become()) return write_byte(report, 'x');
  const FileDescriptor listener = listen_at(identity.agent_name());
  write_byte(report, 'l');
  const FileDescriptor victim(::accept(listener.get(), nullptr, nullptr));
  const Frame welcome = encode(ToMember(Welcome{}));
  if (::send(victim.get(), welcome.bytes.data(), welcome.size, MSG_NOSIGNAL) < 0) return;
  char byte;
  write_byte(report, ::recv(victim.get(), &byte, 1, 0) > 0 ? 'm' : 'n');
}

void expect_nothing_is_given_to(const AgentIdentity& identity, const std::function<bool()>& become) {
  ChildProcess child([&](FileDescriptor report) { impostor(identity, become, report); });
  if (child.read_byte() == 'x') GTEST_SKIP() << "this user may not become what the test needs";
  {
    Member alice(identity, {1}, kAgentPath);
    EXPECT_EQ(alice.client_.start().error, EPERM);
  }
  EXPECT_EQ(child.read_byte(), 'n');
}

TEST_F(AgentProcessTest, AnotherUserWhoTookTheAddressGetsNothing) {
  expect_nothing_is_given_to(identity_, [] { return ::geteuid() == 0 && ::setresuid(65534, 65534, 65534) == 0; });
}

TEST_F(AgentProcessTest, AnotherUserNamespaceThatTookTheAddressGetsNothing) {
  expect_nothing_is_given_to(identity_, [] { return ::unshare(CLONE_NEWUSER) == 0; });
}

TEST_F(AgentProcessTest, StartedByHandItSaysThatItIsNotForHands) {
  for (const char* arguments : {"", " --listen-fd", " --listen-fd x", " --listen-fd 0", " --help"}) {
    const std::string command = std::string(kAgentPath) + arguments + " 2>&1 </dev/null";
    FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    char line[256] = "";
    EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr);
    EXPECT_EQ(std::string_view(line).find("verbatim-agent: "), 0u) << line;
    const int status = ::pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << arguments;
  }
}

TEST_F(AgentProcessTest, AProgramThatIsNoAgentIsAskedAgainAndThenGivenUp) {
  const Result<FileDescriptor> socket = connect_or_start(identity_, "/bin/false");
  EXPECT_EQ(socket.error(), ETIMEDOUT);
  EXPECT_EQ(connect_or_start(identity_, "/nonexistent").error(), ENOENT);
  EXPECT_EQ(connect_or_start(identity_, "/etc/passwd").error(), EACCES);
}

// For the environment that the agent is started with.
class LoggingTo {
 public:
  explicit LoggingTo(const std::filesystem::path& folder) {
    ::setenv("VERBATIM_LOG", ("info:" + (folder / "%p.log").string()).c_str(), 1);
  }
  ~LoggingTo() { ::unsetenv("VERBATIM_LOG"); }
};

TEST_F(AgentProcessTest, LogsWhereTheProgramThatStartedItDoes) {
  std::string folder = testing::TempDir() + "agent-log-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    const LoggingTo logging(folder);
    const auto member = start_member({11});
    await_turn(identity_);
    const std::string pid = std::to_string(the_agent());
    const std::string log = read_file(folder + "/" + pid + ".log");
    EXPECT_EQ(log.find("verbatim[" + pid + "] info: agent: process " + std::to_string(::getpid())), 0u) << log;
    EXPECT_TRUE(log.ends_with('\n')) << log;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbatim::agent
