// Address handles: ibv_create_ah(3), ibv_init_ah_from_wc(3).
#include <endian.h>
#include <net/if.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "conformance/support/side.h"

namespace verbatim::conformance {
namespace {

using AhHandle = std::unique_ptr<ibv_ah, Release<ibv_destroy_ah>>;

class AddressHandle : public testing::Test {
 protected:
  ibv_ah_attr to_this_host() const {
    return {.grh = {.dgid = side_.gid(), .hop_limit = 64}, .is_global = 1, .port_num = kPort};
  }
  // errno of creating it, 0 when that succeeds.
  int creation_error(ibv_ah_attr attr) const {
    errno = 0;
    const AhHandle ah(ibv_create_ah(side_.pd(), &attr));
    return ah ? 0 : errno;
  }
  Side side_;
};

TEST_F(AddressHandle, NamesItsContextAndDomain) {
  ibv_ah_attr attr = to_this_host();
  const AhHandle ah(ibv_create_ah(side_.pd(), &attr));
  ASSERT_TRUE(ah);
  EXPECT_EQ(ah->context, side_.context());
  EXPECT_EQ(ah->pd, side_.pd());
}

TEST_F(AddressHandle, IsRefusedWithAnAddressThatLeadsNowhere) {
  const auto with = [&](auto change) {
    ibv_ah_attr attr = to_this_host();
    change(attr);
    return creation_error(attr);
  };
  EXPECT_EQ(with([](ibv_ah_attr&) {}), 0);
  EXPECT_EQ(with([](ibv_ah_attr& attr) { attr.is_global = 0; }), EINVAL);
  EXPECT_EQ(with([](ibv_ah_attr& attr) { attr.port_num = 2; }), EINVAL);
  EXPECT_EQ(with([](ibv_ah_attr& attr) { attr.grh.sgid_index = 255; }), EINVAL);
  EXPECT_EQ(with([](ibv_ah_attr& attr) { attr.grh.dgid.raw[15] ^= 0x80; }), EHOSTUNREACH);
}

TEST_F(AddressHandle, KeepsItsDomainInUse) {
  PdHandle pd(ibv_alloc_pd(side_.context()));
  ibv_ah_attr attr = to_this_host();
  AhHandle ah(ibv_create_ah(pd.get(), &attr));
  ASSERT_TRUE(ah);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
}

TEST_F(AddressHandle, ThatIsLeftGoesWithItsContext) {
  ContextHandle context(ibv_open_device(side_.context()->device));
  ibv_pd* const pd = ibv_alloc_pd(context.get());
  ibv_ah_attr attr = to_this_host();
  EXPECT_NE(ibv_create_ah(pd, &attr), nullptr);
}

TEST_F(AddressHandle, LinkLayerAddressIsThatOfTheInterface) {
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(side_.context(), kPort, 0, &entry, 0), 0);
  char name[IF_NAMESIZE];
  if (if_indextoname(entry.ndev_ifindex, name) == nullptr) GTEST_SKIP() << "no interface has an address";
  std::string expected;
  std::ifstream("/sys/class/net/" + std::string(name) + "/address") >> expected;
  ibv_ah_attr attr = to_this_host();
  uint8_t mac[6];
  uint16_t vlan = 1;
  ASSERT_EQ(ibv_resolve_eth_l2_from_gid(side_.context(), &attr, mac, &vlan), 0);
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  EXPECT_EQ(text, expected);
  EXPECT_EQ(vlan, 0xffff);
  attr.grh.dgid.raw[15] ^= 0x80;
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(side_.context(), &attr, mac, nullptr), -EHOSTUNREACH);
}

// The header that stands before a datagram from and to GID 0.
ibv_grh grh_between(const ibv_gid& gid) {
  ibv_grh grh{};
  grh.version_tclass_flow = htobe32(6u << 28 | 0x28u << 20 | 0x12345u);
  grh.sgid = grh.dgid = gid;
  return grh;
}

TEST_F(AddressHandle, AnswersADatagram) {
  ibv_grh grh = grh_between(side_.gid());
  ibv_wc wc{.wc_flags = IBV_WC_GRH, .sl = 3};
  ibv_ah_attr attr{};
  ASSERT_EQ(ibv_init_ah_from_wc(side_.context(), kPort, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.port_num, kPort);
  EXPECT_EQ(attr.sl, 3);
  EXPECT_EQ(attr.grh.traffic_class, 0x28);
  EXPECT_EQ(attr.grh.flow_label, 0x12345u);
  EXPECT_EQ(std::memcmp(&attr.grh.dgid, &grh.sgid, sizeof grh.sgid), 0);
  const AhHandle ah(ibv_create_ah_from_wc(side_.pd(), &wc, &grh, kPort));
  EXPECT_TRUE(ah);
}

TEST_F(AddressHandle, AnswersNoDatagramThatWasNotForThisPort) {
  ibv_grh grh = grh_between(side_.gid());
  grh.dgid.raw[15] ^= 0x80;
  ibv_wc wc{.wc_flags = IBV_WC_GRH};
  errno = 0;
  EXPECT_EQ(ibv_create_ah_from_wc(side_.pd(), &wc, &grh, kPort), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_create_ah_from_wc(side_.pd(), &wc, &grh, 2), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
