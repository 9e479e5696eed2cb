// The program of every conformance test: the tests, or, when it has started itself for that, their responder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>

#include "conformance/support/responder.h"

namespace {

// An agent of its own, so that tests meet neither each other nor the user's programs.
void choose_agent() {
  const std::string tag = "conformance-" + std::to_string(std::random_device()());
  setenv("VERBATIM_AGENT_TAG", tag.c_str(), 1);
}

}  // namespace

int main(int count, char** arguments) {
  using namespace verbatim::conformance;
  const std::string_view first = count > 1 ? arguments[1] : "";
  if (first.starts_with(kResponderOption)) {
    testing::InitGoogleTest();
    _exit(serve_commands(std::atoi(first.substr(kResponderOption.size()).data())));
  }
  choose_agent();
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
