#include "model/protection_domain.h"

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::TestDevice;

TEST(ParentDomain, HasTheIdentityOfItsDomainAndKeepsItInUse) {
  TestDevice side(1);
  std::unique_ptr<ProtectionDomain> parent = ProtectionDomain::over(*side.pd);
  EXPECT_EQ(parent->id(), side.pd->id());
  EXPECT_TRUE(parent->is_parent_domain());
  EXPECT_FALSE(side.pd->is_parent_domain());
  EXPECT_TRUE(side.pd->in_use());
  EXPECT_FALSE(parent->in_use());
  parent.reset();
  EXPECT_FALSE(side.pd->in_use());
}

TEST(ParentDomain, IsUsedByWhatIsMadeInItAlone) {
  TestDevice side(1);
  const std::unique_ptr<ProtectionDomain> one = ProtectionDomain::over(*side.pd);
  const std::unique_ptr<ProtectionDomain> other = ProtectionDomain::over(*side.pd);
  one->add_user();
  EXPECT_TRUE(one->in_use());
  EXPECT_FALSE(other->in_use());
  one->remove_user();
}

TEST(ParentDomain, IsNoneOfTheDevicesDomains) {
  TestDevice side(1, {.max_pd = 1});
  EXPECT_EQ(ProtectionDomain::create(side.device).error(), ENOMEM);
  { const std::unique_ptr<ProtectionDomain> parent = ProtectionDomain::over(*side.pd); }
  EXPECT_EQ(ProtectionDomain::create(side.device).error(), ENOMEM) << "it gave back a place that it never had";
}

}  // namespace
}  // namespace verbatim::model
