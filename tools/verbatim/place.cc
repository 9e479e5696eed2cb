#include "place.h"

#include <fmt/format.h>

#include "trial.h"

namespace verbatim::tool {
namespace {

Check judge_user(const Place& place) {
  if (place.real_user == place.effective_user && place.effective_user == place.saved_user)
    return {Mark::ok, "user", fmt::format("the user ID is {}", place.real_user),
            "Processes of the same user with the same capabilities reach each other; other users' do not."};
  return {Mark::missing, "user",
          fmt::format("the real, effective and saved user IDs are {}, {} and {}", place.real_user, place.effective_user,
                      place.saved_user),
          "A process that is not one user's alone meets no other."};
}

Check judge_namespaces(const Place& place) {
  if (!place.network_namespace || !place.user_namespace || !place.pid_namespace)
    return {Mark::missing, "namespaces", "/proc/self/ns cannot be read",
            "Processes cannot tell whether they may trust each other: mount /proc."};
  return {
      Mark::ok, "namespaces",
      fmt::format("network {}, user {}, PID {}", *place.network_namespace, *place.user_namespace, *place.pid_namespace),
      "Only processes in the same three meet: two containers do when they share them."};
}

Check judge_new_user_namespaces(const Place& place) {
  const int error = place.new_user_namespace_error;
  return {Mark::ok, "user namespaces",
          error == 0 ? "new ones can be made" : fmt::format("new ones cannot be made: {}", describe_trial(error)),
          "It does not matter: only Verbatim's own tests make some."};
}

}  // namespace

std::vector<Check> judge(const Place& place) {
  return {judge_user(place), judge_namespaces(place), judge_new_user_namespaces(place)};
}

}  // namespace verbatim::tool
