#include "runtime/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Configuration read(std::vector<const char*> settings) {
  settings.push_back(nullptr);
  return read_configuration(settings.data());
}

TEST(Configuration, AnEmptyEnvironmentIsTheDefaults) {
  for (const Configuration& configuration : {read({}), read_configuration(nullptr)}) {
    EXPECT_EQ(configuration.log_level, LogLevel::off);
    EXPECT_EQ(configuration.log_file, "");
    EXPECT_EQ(configuration.vendor_id, std::nullopt);
    EXPECT_EQ(configuration.vendor_part_id, std::nullopt);
    EXPECT_THAT(configuration.complaints, IsEmpty());
  }
}

TEST(Configuration, LooksOnlyAtItsOwnVariables) {
  const Configuration configuration = read({"PATH=/bin", "verbatim_log=trace", "XVERBATIM_LOG=trace", "VERBATIM_", ""});
  EXPECT_EQ(configuration.log_level, LogLevel::off);
  EXPECT_THAT(configuration.complaints, IsEmpty());
}

TEST(Configuration, LogTakesEachLevel) {
  EXPECT_EQ(read({"VERBATIM_LOG=off"}).log_level, LogLevel::off);
  EXPECT_EQ(read({"VERBATIM_LOG=warn"}).log_level, LogLevel::warn);
  EXPECT_EQ(read({"VERBATIM_LOG=info"}).log_level, LogLevel::info);
  EXPECT_EQ(read({"VERBATIM_LOG=trace"}).log_level, LogLevel::trace);
}

TEST(Configuration, LogTakesAFileInWhichColonsAreAllowed) {
  const Configuration configuration = read({"VERBATIM_LOG=info:/tmp/a:b.%p"});
  EXPECT_EQ(configuration.log_level, LogLevel::info);
  EXPECT_EQ(configuration.log_file, "/tmp/a:b.%p");
  EXPECT_THAT(configuration.complaints, IsEmpty());
}

TEST(Configuration, ALogItDoesNotUnderstandStaysOffAndIsComplainedAbout) {
  for (const char* setting : {"VERBATIM_LOG=debug", "VERBATIM_LOG=WARN", "VERBATIM_LOG=:/tmp/a",
                              "VERBATIM_LOG=warn:", "VERBATIM_LOG=warn ", "VERBATIM_LOG=1"}) {
    const Configuration configuration = read({setting});
    EXPECT_EQ(configuration.log_level, LogLevel::off) << setting;
    EXPECT_EQ(configuration.log_file, "") << setting;
    EXPECT_THAT(
        configuration.complaints,
        ElementsAre(std::string(setting) + " is not understood: expected off, warn, info or trace, then perhaps "
                                           ":FILE"));
  }
}

TEST(Configuration, NumbersAreDecimalOrHexadecimal) {
  const Configuration configuration = read({"VERBATIM_VENDOR_ID=0x02C9", "VERBATIM_VENDOR_PART_ID=4119"});
  EXPECT_EQ(configuration.vendor_id, 0x2c9u);
  EXPECT_EQ(configuration.vendor_part_id, 4119u);
  EXPECT_THAT(configuration.complaints, IsEmpty());
}

TEST(Configuration, NumbersGoUpToTheirFields) {
  EXPECT_EQ(read({"VERBATIM_VENDOR_ID=0xffffff"}).vendor_id, 0xffffffu);
  EXPECT_EQ(read({"VERBATIM_VENDOR_PART_ID=0"}).vendor_part_id, 0u);
  EXPECT_EQ(read({"VERBATIM_VENDOR_PART_ID=4294967295"}).vendor_part_id, 4294967295u);
}

TEST(Configuration, NumbersItDoesNotUnderstandAreLeftOutAndComplainedAbout) {
  for (const char* setting :
       {"VERBATIM_VENDOR_ID=0", "VERBATIM_VENDOR_ID=0x1000000", "VERBATIM_VENDOR_ID=-1", "VERBATIM_VENDOR_ID=12ab",
        "VERBATIM_VENDOR_ID=0x", "VERBATIM_VENDOR_ID= 1", "VERBATIM_VENDOR_PART_ID=4294967296",
        "VERBATIM_VENDOR_PART_ID=0x1g", "VERBATIM_VENDOR_PART_ID=mlx5"}) {
    const Configuration configuration = read({setting});
    EXPECT_EQ(configuration.vendor_id, std::nullopt) << setting;
    EXPECT_EQ(configuration.vendor_part_id, std::nullopt) << setting;
    EXPECT_EQ(configuration.complaints.size(), 1u) << setting;
  }
}

TEST(Configuration, AnEmptyValueIsTheDefaultWithoutComplaint) {
  const Configuration configuration = read({"VERBATIM_LOG=", "VERBATIM_VENDOR_ID="});
  EXPECT_EQ(configuration.log_level, LogLevel::off);
  EXPECT_THAT(configuration.complaints, IsEmpty());
}

TEST(Configuration, AnUnknownVariableIsComplainedAboutByName) {
  EXPECT_THAT(read({"VERBATIM_VENDORID=1", "VERBATIM_LOGS="}).complaints,
              ElementsAre("VERBATIM_VENDORID is not a variable of this version",
                          "VERBATIM_LOGS is not a variable of this version"));
}

TEST(Configuration, OneBadVariableDoesNotSpoilTheOthers) {
  const Configuration configuration = read({"VERBATIM_TRUST=x", "VERBATIM_LOG=warn", "VERBATIM_VENDOR_ID=7"});
  EXPECT_EQ(configuration.log_level, LogLevel::warn);
  EXPECT_EQ(configuration.vendor_id, 7u);
  EXPECT_EQ(configuration.complaints.size(), 1u);
}

TEST(Configuration, OfTheProcessIsReadOnce) {
  const Configuration* first = &configuration();
  setenv("VERBATIM_LOG", "trace", 1);
  EXPECT_EQ(&configuration(), first);
  EXPECT_EQ(configuration().log_level, first->log_level);
  unsetenv("VERBATIM_LOG");
}

}  // namespace
}  // namespace verbatim::runtime
