#include "model/device.h"

#include <gtest/gtest.h>

#include "support/cancelled_thread.h"
#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::gid_of;
using testing_support::is_not_cancelled_in;
using testing_support::kHostGid;
using testing_support::TestDevice;

class ADevice : public testing::Test {
 protected:
  // How many events were raised since; each must be a GID change of port 1.
  size_t gid_changes() {
    const std::vector<AsyncEvent> events = side_.take_events();
    for (const AsyncEvent& event : events) {
      EXPECT_EQ(event.type, AsyncEventType::gid_change);
      EXPECT_EQ(event.port, 1);
      EXPECT_EQ(event.account, nullptr);
    }
    return events.size();
  }
  const Gid other_gid_ = gid_of("::ffff:10.0.0.2");
  TestDevice side_{1};
};

TEST_F(ADevice, TellsWhoOpenedItOfEachChangeOfItsGids) {
  side_.device.add(side_.events);
  side_.addresses.gids.push_back(other_gid_);
  EXPECT_TRUE(side_.device.refresh_gids());
  EXPECT_EQ(gid_changes(), 1u);
  EXPECT_TRUE(side_.device.is_local(other_gid_));
  side_.addresses.gids.pop_back();
  EXPECT_TRUE(side_.device.refresh_gids());
  EXPECT_EQ(gid_changes(), 1u);
  EXPECT_FALSE(side_.device.is_local(other_gid_));
}

TEST_F(ADevice, TellsNothingWhenNothingHasChanged) {
  side_.device.add(side_.events);
  EXPECT_FALSE(side_.device.refresh_gids());
  EXPECT_EQ(gid_changes(), 0u);
}

// Looking for an address may find the news before whoever watches for them does.
TEST_F(ADevice, TellsOfAChangeWhoeverFindsIt) {
  side_.device.add(side_.events);
  side_.addresses.gids.push_back(other_gid_);
  EXPECT_TRUE(side_.device.is_local(other_gid_));
  EXPECT_EQ(gid_changes(), 1u);
  EXPECT_FALSE(side_.device.refresh_gids());
  EXPECT_EQ(gid_changes(), 0u);
}

// Others would wait for its lock for ever.
TEST_F(ADevice, LooksForGidsInAThreadThatIsBeingCancelled) {
  side_.addresses.gids.push_back(other_gid_);
  EXPECT_TRUE(is_not_cancelled_in([&] { EXPECT_TRUE(side_.device.is_local(other_gid_)); }));
}

TEST_F(ADevice, TellsNothingToWhoHasClosedIt) {
  side_.device.add(side_.events);
  side_.device.remove(side_.events);
  side_.addresses.gids.clear();
  EXPECT_TRUE(side_.device.refresh_gids());
  EXPECT_EQ(gid_changes(), 0u);
}

}  // namespace
}  // namespace verbatim::model
