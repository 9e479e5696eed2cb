// The `verbatim` command: reads the command line, calls one function per subcommand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "devices.h"
#include "doctor.h"
#include "explain.h"
#include "run.h"

namespace verbatim::tool {
namespace {

constexpr int kUsageError = 2;

// How many of the arguments are the tool's. Those after belong to the program that `run` starts and never reach the
// parser, which would take their options for its own.
int own_arguments(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
  int i = 2;
  while (i < argc && argv[i][0] == '-') {
    const std::string_view argument = argv[i];
    if (argument == "--") break;
    i += argument == "--only" ? 2 : 1;
  }
  return std::min(i, argc);
}

// PROGRAM ARGS…, or an empty list.
char** program_arguments(char** argv, int own) {
  char** program = argv + own;
  const bool separator = *program && std::string_view(*program) == "--";
  return separator ? program + 1 : program;
}

int report(const CLI::App& app, const CLI::ParseError& outcome) {
  if (outcome.get_exit_code() == 0) return app.exit(outcome);  // --help, --version
  fmt::print(stderr, "verbatim: {}\nTry 'verbatim --help'.\n", outcome.what());
  return kUsageError;
}

int main(int argc, char** argv) {
  const int own = own_arguments(argc, argv);
  RunRequest request{.only = {}, .program = program_arguments(argv, own)};
  std::string reason;

  CLI::App app{"RDMA with no NIC, no kernel module, no root."};
  app.name("verbatim");
  app.require_subcommand(1);
  app.set_version_flag("--version", "verbatim " VERBATIM_VERSION);
  CLI::App* run_command = app.add_subcommand("run", "run an unmodified program on our libraries");
  run_command->footer("PROGRAM [ARGUMENT...] follows the options, after -- where its name begins with a dash.");
  run_command->add_option("--only", request.only, "just these of ibverbs, rdmacm, rpma; the system's for the others")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIBRARY,...")
      ->check(CLI::IsMember({"ibverbs", "rdmacm", "rpma"}));
  CLI::App* devices_command = app.add_subcommand("devices", "list the devices a program sees");
  CLI::App* reason_command = app.add_subcommand("reason", "explain the vendor_err of a failed work completion");
  reason_command->add_option("reason", reason, "its number or name")->required()->type_name("NUMBER|NAME");
  CLI::App* doctor_command =
      app.add_subcommand("doctor", "say what this machine allows, and what follows for speed and reach");

  try {
    app.parse(own, argv);
    if (*run_command && !*request.program) throw CLI::RequiredError("run: a program to run");
  } catch (const CLI::ParseError& outcome) {
    return report(app, outcome);
  }
  if (*devices_command) return print_devices();
  if (*reason_command) return explain_reason(reason);
  if (*doctor_command) return examine_machine();
  return run(request);
}

}  // namespace
}  // namespace verbatim::tool

int main(int argc, char** argv) { return verbatim::tool::main(argc, argv); }
