// verbatim-agent --listen-fd N: serves the processes of one user until the last one has gone. Libraries start it
// (launcher.h) with the socket that it is to listen on, and with the VERBATIM_LOG of the program that needed it first.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "agent/agent_server.h"
#include "agent/identity.h"
#include "obs/log_file.h"
#include "obs/log_setting.h"

namespace verbatim::agent {
namespace {

int refuse(const char* why) {
  std::fprintf(stderr, "verbatim-agent: %s\n", why);
  return 2;
}

std::optional<int> listen_fd(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--listen-fd") return {};
  const std::string_view text = argv[2];
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 0) return {};
  return fd;
}

bool has_option(int fd, int option, int wanted) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

bool listens_at(int fd, const AbstractName& name) {
  if (!has_option(fd, SO_DOMAIN, AF_UNIX) || !has_option(fd, SO_TYPE, SOCK_SEQPACKET)) return false;
  if (!has_option(fd, SO_ACCEPTCONN, 1)) return false;
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  return size == name.length && std::memcmp(&address, &name.address, size) == 0;
}

// The program that started us had every signal blocked and may have ignored some; its terminal is none of our business.
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  for (int signal : {SIGPIPE, SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Before the folder is changed, since FILE may be relative to that of the program. What is not understood is the
// program's to complain about.
void start_log() {
  const char* value = ::secure_getenv("VERBATIM_LOG");
  const std::optional<LogSetting> setting = value != nullptr ? parse_log_setting(value) : std::nullopt;
  if (!setting || setting->level == LogLevel::off) return;
  static LogFile file(setting->file);
  set_log(&file, setting->level);
}

int serve(int argc, char** argv) {
  const std::optional<int> fd = listen_fd(argc, argv);
  if (!fd) return refuse("this program is started by the Verbatim libraries, with --listen-fd N");
  Result<AgentIdentity> identity = AgentIdentity::of_this_process();
  if (!identity.ok())
    return refuse("cannot tell this process's user and namespaces, or VERBATIM_AGENT_TAG is malformed");
  if (!listens_at(*fd, identity.value().agent_name())) {
    return refuse("the descriptor of --listen-fd is not a socket that listens at this user's agent address");
  }
  reset_signals();
  ::prctl(PR_SET_NAME, "verbatim-agent");
  start_log();
  if (::chdir("/") != 0) return refuse("cannot change to the root directory");
  AgentServer server(identity.take(), FileDescriptor(*fd));
  return server.run().ok() ? 0 : refuse("cannot wait for events");
}

}  // namespace
}  // namespace verbatim::agent

int main(int argc, char** argv) { return verbatim::agent::serve(argc, argv); }
