// The tool warns about exactly those values that the libraries do not take: two tables, one verdict.
#include "environment.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/configuration.h"

namespace verbatim {
namespace {

constexpr const char* kValues[] = {
    "",           "off",        "warn",       "info",     "trace", "Warn",      "warn:",      "warn:/tmp/x",
    "trace:%p:y", ":x",         "user",       "netns",    "loud",  "0",         "1",          "16777215",
    "16777216",   "4294967295", "4294967296", "0xffffff", "0X1",   "0x1000000", "0xffffffff", "0x100000000",
    "-1",         "+1",         " 1",         "1 ",       "0x",    "x",         "12x",
};

TEST(Environment, TheToolAndTheLibrariesAgreeOnEachValue) {
  int variables = 0;
  for (const tool::Variable& variable : tool::known_variables()) {
    if (!variable.documented) continue;
    ++variables;
    for (const char* value : kValues) {
      const std::string entry = std::string(variable.name) + "=" + value;
      const char* environment[] = {entry.c_str(), nullptr};
      EXPECT_EQ(tool::complaints(environment).size(), runtime::read_configuration(environment).complaints.size())
          << entry;
    }
  }
  EXPECT_GT(variables, 0);
}

TEST(Environment, NeitherKnowsAMisspeltName) {
  const char* environment[] = {"VERBATIM_LOGG=warn", "PATH=/bin", nullptr};
  EXPECT_EQ(tool::complaints(environment).size(), 1u);
  EXPECT_EQ(runtime::read_configuration(environment).complaints.size(), 1u);
}

}  // namespace
}  // namespace verbatim
