#include "model/address_handle.h"

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace verbatim::model {
namespace {

using testing_support::gid_of;
using testing_support::kHostGid;
using testing_support::TestDevice;

class AnAddressHandle : public testing::Test {
 protected:
  Result<std::unique_ptr<AddressHandle>> create() { return AddressHandle::create(side_.device, *side_.pd, address_); }
  int error() { return create().error(); }

  TestDevice side_{1, {.max_ah = 2}};
  AddressVector address_{.is_global = true,
                         .dgid = kHostGid,
                         .flow_label = 0x12345,
                         .sgid_index = 0,
                         .hop_limit = 64,
                         .traffic_class = 0x28,
                         .service_level = 3,
                         .port = 1};
};

TEST_F(AnAddressHandle, SaysWhatARequestNeeds) {
  const Result<std::unique_ptr<AddressHandle>> handle = create();
  ASSERT_TRUE(handle.ok());
  const DatagramAddress& address = handle.value()->address();
  EXPECT_EQ(address.source, kHostGid);
  EXPECT_EQ(address.destination, kHostGid);
  EXPECT_EQ(address.flow_label, 0x12345u);
  EXPECT_EQ(address.traffic_class, 0x28);
  EXPECT_EQ(address.hop_limit, 64);
  EXPECT_EQ(address.service_level, 3);
  EXPECT_EQ(address.pd, side_.pd->id());
}

TEST_F(AnAddressHandle, NeedsAGlobalRoute) {
  address_.is_global = false;
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(AnAddressHandle, NeedsThePortThatThereIs) {
  for (const uint8_t port : {0, 2}) {
    address_.port = port;
    EXPECT_EQ(error(), EINVAL) << int{port};
  }
}

TEST_F(AnAddressHandle, NeedsASourceIndexWithAGid) {
  for (const uint8_t index : {1, 255}) {
    address_.sgid_index = index;
    EXPECT_EQ(error(), EINVAL) << int{index};
  }
}

TEST_F(AnAddressHandle, NeedsADestinationOfTheSourcesFamily) {
  address_.dgid = gid_of("ff0e::1");
  EXPECT_EQ(error(), EINVAL);
}

TEST_F(AnAddressHandle, ReachesThisHostAndGroupsAndNobodyElse) {
  address_.dgid = gid_of("::ffff:10.0.0.2");
  EXPECT_EQ(error(), EHOSTUNREACH);
  address_.dgid = gid_of("::ffff:239.1.2.3");
  EXPECT_EQ(error(), 0);
}

TEST_F(AnAddressHandle, OfAGroupAsksForEveryone) {
  EXPECT_EQ(error(), 0);
  EXPECT_FALSE(side_.process.wishes_everyone());
  address_.dgid = gid_of("::ffff:239.1.2.3");
  EXPECT_EQ(error(), 0);
  EXPECT_TRUE(side_.process.wishes_everyone());
  side_.process.answer_introductions({ECONNREFUSED});
  EXPECT_EQ(error(), EHOSTUNREACH);
  side_.process.answer_introductions({EMFILE});
  EXPECT_EQ(error(), EMFILE);
}

TEST_F(AnAddressHandle, UsesItsDomain) {
  Result<std::unique_ptr<AddressHandle>> handle = create();
  EXPECT_TRUE(side_.pd->in_use());
  handle.value().reset();
  EXPECT_FALSE(side_.pd->in_use());
}

TEST_F(AnAddressHandle, CountsAgainstTheDevicesNumber) {
  Result<std::unique_ptr<AddressHandle>> first = create();
  const Result<std::unique_ptr<AddressHandle>> second = create();
  EXPECT_EQ(error(), ENOMEM);
  first.value().reset();
  EXPECT_EQ(error(), 0);
}

}  // namespace
}  // namespace verbatim::model
