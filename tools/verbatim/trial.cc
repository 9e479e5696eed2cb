#include "trial.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbatim::tool {

int try_in_child(const std::function<int()>& trial) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(trial());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

std::string describe_trial(int error) {
  return error == kKilled ? "a program that tries it is killed" : std::strerror(error);
}

}  // namespace verbatim::tool
