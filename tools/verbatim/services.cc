#include "services.h"

#include <fmt/format.h>

#include "trial.h"

namespace verbatim::tool {
namespace {

// What no process can meet another without.
struct Need {
  const char* name;
  const char* call;
  int Services::*error;
  const char* use;
  const char* loss;
};

constexpr const char* kNoDevice = "No program can open the device.";
constexpr const char* kNobodyMeets = "No process can meet another: it reaches only itself.";

constexpr Need kNeeds[] = {
    {"shared tables", "memfd_create", &Services::memfd_error, "What a process shows its peers lies in such memory.",
     kNoDevice},
    {"seals", "F_ADD_SEALS of SHRINK, GROW and FUTURE_WRITE", &Services::seal_error,
     "Peers can read these tables and not change them.", kNobodyMeets},
    {"doorbells", "eventfd", &Services::eventfd_error, "A process that sleeps is woken by its peers.", kNoDevice},
    {"deaths", "pidfd_open", &Services::pidfd_error, "A peer that ends is noticed at once, and is not mistaken.",
     kNobodyMeets},
    {"abstract sockets", "binding and connecting to an abstract AF_UNIX name", &Services::abstract_socket_error,
     "Processes find each other by such names, and no file is left behind.", "No program can create a queue pair."},
    {"descriptor passing", "SCM_RIGHTS", &Services::descriptor_passing_error,
     "Processes hand each other their tables and doorbells.", kNobodyMeets},
};

Check judge_need(const Need& need, const Services& services) {
  const int error = services.*need.error;
  if (error == 0) return {Mark::ok, need.name, fmt::format("{} works", need.call), need.use};
  return {Mark::missing, need.name, fmt::format("{}: {}", need.call, describe_trial(error)), need.loss};
}

Check judge_robust_futex(const Services& services) {
  if (services.robust_futex_error == 0)
    return {Mark::ok, "robust futexes", "the kernel marks the word of a thread that ends (set_robust_list)",
            "No operation is begun on a peer that has ended."};
  return {Mark::note, "robust futexes", fmt::format("set_robust_list: {}", describe_trial(services.robust_futex_error)),
          "That a peer has ended is known from the agent alone, and so a moment later."};
}

Check judge_membarrier(const Services& services) {
  if (services.membarrier_error != 0)
    return {Mark::slower, "membarrier",
            fmt::format("MEMBARRIER_CMD_GLOBAL_EXPEDITED: {}", describe_trial(services.membarrier_error)),
            "Each slice of a transfer costs one more memory fence, some ten nanoseconds."};
  return {Mark::ok, "membarrier", "MEMBARRIER_CMD_GLOBAL_EXPEDITED works",
          "Transfers need no memory fence of their own."};
}

Check judge_restartable_sequences(const Services& services) {
  if (services.restartable_sequence_error == 0)
    return {
        Mark::ok, "restartable sequences", "the C library has registered them (rseq)",
        "A peer that is stopped in the middle of a transfer holds up ibv_dereg_mr for a tenth of a second at most."};
  return {Mark::note, "restartable sequences",
          fmt::format("rseq: {}", describe_trial(services.restartable_sequence_error)),
          "A peer that is stopped in the middle of a transfer holds up ibv_dereg_mr until it goes on or ends. Programs "
          "need glibc 2.35 or later for this, without GLIBC_TUNABLES=glibc.pthread.rseq=0."};
}

}  // namespace

std::vector<Check> judge(const Services& services) {
  std::vector<Check> checks;
  for (const Need& need : kNeeds) checks.push_back(judge_need(need, services));
  checks.push_back(judge_robust_futex(services));
  checks.push_back(judge_membarrier(services));
  checks.push_back(judge_restartable_sequences(services));
  return checks;
}

}  // namespace verbatim::tool
