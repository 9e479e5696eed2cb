#include "api/rdmacm/convert_connection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/two_hosts.h"

namespace verbatim::api {
namespace {

// Every member of its own value, so that two that change places are seen.
TEST(ConvertConnection, ParametersSurviveTheWayThereAndBack) {
  const cm::PrivateData data = cm::bytes(5);
  const cm::ConnectParameters parameters{.qpn = {0x123456},
                                         .srq = true,
                                         .responder_resources = 2,
                                         .initiator_depth = 3,
                                         .flow_control = true,
                                         .retry_count = 4,
                                         .rnr_retry_count = 5};
  const rdma_conn_param c = to_c(parameters, data);
  EXPECT_EQ(c.qp_num, 0x123456u);
  EXPECT_EQ(c.responder_resources, 2);
  EXPECT_EQ(c.initiator_depth, 3);
  EXPECT_EQ(c.private_data, data.bytes().data());
  EXPECT_EQ(c.private_data_len, 5);
  const cm::Offer offer = from_c(&c);
  EXPECT_EQ(offer.parameters, parameters);
  EXPECT_EQ(offer.private_data, data);
}

TEST(ConvertConnection, AnythingButZeroIsTrue) {
  const rdma_conn_param c{.flow_control = 2, .srq = 0x80};
  EXPECT_TRUE(from_c(&c).parameters.flow_control);
  EXPECT_TRUE(from_c(&c).parameters.srq);
}

TEST(ConvertConnection, NoPrivateDataIsNone) {
  EXPECT_EQ(from_c(nullptr).private_data.size(), 0u);
  rdma_conn_param c{};
  EXPECT_EQ(from_c(&c).private_data.size(), 0u);
  c.private_data_len = 1;
  EXPECT_EQ(from_c(&c).private_data.size(), 0u) << "a length of nothing";
  EXPECT_EQ(to_c(cm::ConnectParameters{}, {}).private_data, nullptr);
}

TEST(ConvertConnection, DatagramsGoWhereTheirTargetIs) {
  const cm::PrivateData data = cm::bytes(5);
  const cm::DatagramTarget target{.path = {.destination = cm::ipv6("2001:db8::1").ip,
                                           .flow_label = 0x12345,
                                           .traffic_class = 6,
                                           .hop_limit = 7,
                                           .rate = 8,
                                           .service_level = 9},
                                  .qpn = {0x123456},
                                  .q_key = 0x789};
  const rdma_ud_param c = to_c(target, data);
  EXPECT_TRUE(std::ranges::equal(c.ah_attr.grh.dgid.raw, target.path.destination.bytes));
  EXPECT_EQ(c.ah_attr.grh.flow_label, 0x12345u);
  EXPECT_EQ(c.ah_attr.grh.traffic_class, 6);
  EXPECT_EQ(c.ah_attr.grh.hop_limit, 7);
  EXPECT_EQ(c.ah_attr.static_rate, 8);
  EXPECT_EQ(c.ah_attr.sl, 9);
  EXPECT_EQ(c.ah_attr.is_global, 1);
  EXPECT_EQ(c.ah_attr.port_num, 1);
  EXPECT_EQ(c.qp_num, 0x123456u);
  EXPECT_EQ(c.qkey, 0x789u);
  EXPECT_EQ(c.private_data, data.bytes().data());
  EXPECT_EQ(c.private_data_len, 5);
}

}  // namespace
}  // namespace verbatim::api
