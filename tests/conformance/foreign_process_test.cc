// A process that shares this network but is not one of ours: another user's, or one of another user or PID namespace.
// No memory is shared with it, and what is sent to it fails with a reason.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kBytes = 4096;

struct Foreigner {
  const char* name;
  bool (*become)();
};

bool become_another_user() {
  constexpr uid_t kNobody = 65534;
  return geteuid() == 0 && setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0;
}

bool write_to(const char* path, const std::string& text) { return (std::ofstream(path) << text << std::flush).good(); }

// As root there, as a container's user is.
bool enter_user_namespace() {
  const std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  return unshare(CLONE_NEWUSER) == 0 && write_to("/proc/self/setgroups", "deny") &&
         write_to("/proc/self/uid_map", "0 " + uid + " 1") && write_to("/proc/self/gid_map", "0 " + gid + " 1");
}

// With a /proc that shows it, as a container has.
bool enter_pid_namespace() {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return false;
  // The caller's children are in it; the caller is not.
  const pid_t child = fork();
  if (child == 0)
    return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("proc", "/proc", "proc", 0, nullptr) == 0;
  if (child < 0) return false;
  waitpid(child, nullptr, 0);
  _exit(0);
}

const Foreigner kForeigners[] = {
    {"OfAnotherUser", become_another_user},
    {"OfAnotherUserNamespace", enter_user_namespace},
    {"OfAnotherPidNamespace", enter_pid_namespace},
};

// What each end tells the other; qpn 0: it could not become what it should.
struct Card {
  Address address;
  uint64_t memory = 0;
  uint32_t rkey = 0;
};

struct End {
  Side side;
  Memory memory{MemoryKind::file, kBytes};
  MrHandle region = side.register_memory(memory);
  QpHandle qp = side.create_queue_pair();

  Card card() const { return {side.address_of(qp.get()), memory.address(), region->rkey}; }
  std::optional<ibv_wc> write_to(const Card& other) const {
    EXPECT_EQ(connect(qp.get(), other.address, {.timeout = 10, .retry_cnt = 1}), 0);
    EXPECT_EQ(
        post(
            qp.get(),
            {{.sges = {{memory.address(), kBytes, region->lkey}}, .remote_address = other.memory, .rkey = other.rkey}}),
        kAllPosted);
    return side.poll();
  }
};

class ForeignProcess : public testing::TestWithParam<Foreigner> {
 protected:
  ForeignProcess() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      live(ends[1]);
    }
    close(ends[1]);
    talk_ = ends[0];
  }
  ~ForeignProcess() override {
    close(talk_);
    waitpid(child_, nullptr, 0);
  }

  // Writes as the parent does, and says how that ended and whether its own memory is as it was.
  struct Report {
    ibv_wc_status status = IBV_WC_SUCCESS;
    bool reason = false;
    bool untouched = false;
  };
  [[noreturn]] static void live(int talk) {
    Card other;
    if (!GetParam().become()) {
      [[maybe_unused]] const ssize_t sent = send(talk, &other, sizeof other, 0);
      _exit(0);
    }
    // As for a program that was started there.
    prctl(PR_SET_DUMPABLE, 1);
    alarm(60);
    const End end;
    fill(end.memory.bytes(), 7);
    const Card own = end.card();
    if (send(talk, &own, sizeof own, 0) != sizeof own || recv(talk, &other, sizeof other, 0) != sizeof other) _exit(1);
    Report report;
    if (const std::optional<ibv_wc> completion = end.write_to(other))
      report = {completion->status, completion->vendor_err != 0};
    // Until the other has tried too.
    char byte;
    if (recv(talk, &byte, 1, 0) == 1) {
      report.untouched = !first_difference(end.memory.bytes(), 7);
      [[maybe_unused]] const ssize_t sent = send(talk, &report, sizeof report, 0);
    }
    _exit(0);
  }

  int talk_ = -1;

 private:
  pid_t child_ = -1;
};
INSTANTIATE_TEST_SUITE_P(Each, ForeignProcess, testing::ValuesIn(kForeigners),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ForeignProcess, IsNotReachedAndReachesNobody) {
  Card other;
  ASSERT_EQ(recv(talk_, &other, sizeof other, 0), static_cast<ssize_t>(sizeof other));
  if (other.address.qpn == 0) GTEST_SKIP() << "this user may not become what the test needs";
  const End end;
  fill(end.memory.bytes(), 8);
  const Card own = end.card();
  ASSERT_EQ(send(talk_, &own, sizeof own, 0), static_cast<ssize_t>(sizeof own));
  const std::optional<ibv_wc> completion = end.write_to(other);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(completion->status);
  EXPECT_NE(completion->vendor_err, 0u);
  Report report;
  ASSERT_EQ(send(talk_, "", 1, 0), 1);
  ASSERT_EQ(recv(talk_, &report, sizeof report, 0), static_cast<ssize_t>(sizeof report));
  EXPECT_EQ(report.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(report.status);
  EXPECT_TRUE(report.reason);
  EXPECT_TRUE(report.untouched);
  EXPECT_EQ(first_difference(end.memory.bytes(), 8), std::nullopt);
}

}  // namespace
}  // namespace verbatim::conformance
