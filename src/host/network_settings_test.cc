#include "host/network_settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace verbatim::host {
namespace {

class NetworkSettingsTest : public testing::Test {
 protected:
  NetworkSettingsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "settings-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~NetworkSettingsTest() override { std::filesystem::remove_all(folder_); }

  void set(const std::string& name, const std::string& value) const {
    const std::filesystem::path path = folder_ / "net" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << '\n';
  }

  std::filesystem::path folder_;
};

TEST_F(NetworkSettingsTest, AreThoseOfTheAdministrator) {
  set("ipv4/ip_unprivileged_port_start", "80");
  set("ipv4/ip_local_port_range", "20000\t20010");
  set("ipv6/bindv6only", "1");
  set("rdma_ucm/max_backlog", "7");
  const NetworkSettings settings = network_settings(folder_);
  EXPECT_EQ(settings.first_unprivileged_port, 80);
  EXPECT_EQ(settings.first_ephemeral_port, 20000);
  EXPECT_EQ(settings.last_ephemeral_port, 20010);
  EXPECT_TRUE(settings.ipv6_only);
  EXPECT_EQ(settings.max_rdma_backlog, 7);
}

TEST_F(NetworkSettingsTest, AreLinuxDefaultsWhereThereAreNoneOrTheyAreNonsense) {
  const auto expect_defaults = [&] {
    const NetworkSettings settings = network_settings(folder_);
    EXPECT_EQ(settings.first_unprivileged_port, 1024);
    EXPECT_EQ(settings.first_ephemeral_port, 32768);
    EXPECT_EQ(settings.last_ephemeral_port, 60999);
    EXPECT_FALSE(settings.ipv6_only);
    EXPECT_EQ(settings.max_rdma_backlog, 1024);
  };
  expect_defaults();
  set("ipv4/ip_unprivileged_port_start", "-1");
  set("ipv4/ip_local_port_range", "20010 20000");
  set("ipv6/bindv6only", "both");
  set("rdma_ucm/max_backlog", "0");
  expect_defaults();
}

}  // namespace
}  // namespace verbatim::host
