#include "agent/admission.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_test_support.h"

namespace verbatim::agent {
namespace {

__user_cap_header_struct header() { return {_LINUX_CAPABILITY_VERSION_3, 0}; }

bool has_capabilities() {
  __user_cap_header_struct own = header();
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capget, &own, sets) == 0 && (sets[0].permitted | sets[1].permitted) != 0;
}

bool give_up_capabilities() {
  __user_cap_header_struct own = header();
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capset, &own, none) == 0;
}

// Looks at its parent, which is of the same user and namespaces and made the connection.
[[noreturn]] void look(int socket, const AgentIdentity& identity) {
  if (!give_up_capabilities()) ::_exit(1);
  const std::variant<Admission, Refusal> verdict = examine(socket, identity);
  const Refusal* const refusal = std::get_if<Refusal>(&verdict);
  if (!refusal || *refusal != Refusal::process_unreadable) ::_exit(2);
  ::_exit(check_agent(::getppid(), identity.uid, identity).error == EPERM ? 0 : 3);
}

TEST(Admission, NobodyMeetsAProcessWithMoreCapabilities) {
  if (!has_capabilities()) GTEST_SKIP() << "this user has no capabilities to give up";
  const AgentIdentity identity = test_identity();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor one(ends[0]), other(ends[1]);
  EXPECT_TRUE(std::holds_alternative<Admission>(examine(one.get(), identity)));
  const pid_t child = ::fork();
  if (child == 0) look(one.get(), identity);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbatim::agent
