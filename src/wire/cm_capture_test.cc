// What rdma_rxe sent, field by field, and byte by byte.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "wire/captured_mads.h"
#include "wire/cm_message.h"
#include "wire/rdma_ip_cm_header.h"

namespace verbatim::wire {
namespace {

Gid gid(const char* address) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, address, result.bytes.data()), 1) << address;
  return result;
}

CmMessage parsed(const Mad& mad) {
  const std::variant<CmMessage, Reason> result = parse_cm(mad);
  EXPECT_TRUE(std::holds_alternative<CmMessage>(result));
  const CmMessage* const message = std::get_if<CmMessage>(&result);
  return message ? *message : CmMessage{};
}

template <class Message>
Message captured(std::string_view capture, std::string_view name) {
  const CmBody body = parsed(captured_mad(capture, name)).body;
  EXPECT_TRUE(std::holds_alternative<Message>(body));
  return std::get<Message>(body);
}

TEST(CapturedMads, AreReadAndWrittenByteByByte) {
  for (const CapturedMad& captured : kCapturedMads) {
    const CmMessage message = parsed(bytes_of(captured));
    EXPECT_EQ(emit_cm(message), bytes_of(captured)) << captured.capture << " " << captured.packet;
    EXPECT_EQ(text(message).substr(0, captured.message.size() + 1), std::string(captured.message) + " ");
  }
}

TEST(CapturedMads, HoldTheRequestOfRping) {
  EXPECT_EQ(parsed(captured_mad("rping", "REQ")).transaction_id, 0x2'000c76e9u);
  const Req req = captured<Req>("rping", "REQ");
  EXPECT_EQ(req.local_communication_id, CommunicationId{0xe9760c00});
  EXPECT_EQ(req.ece, Ece{});
  EXPECT_EQ(req.service_id, ServiceId{0x1061c06});
  EXPECT_EQ(req.local_ca_guid, 0x505400fffe4d0003u);
  EXPECT_EQ(req.local_qpn, Qpn{0x11});
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.transport_service, TransportService::rc);
  EXPECT_FALSE(req.end_to_end_flow_control);
  EXPECT_EQ(req.starting_psn, Psn{0x76a852});
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.partition_key, 0xffff);
  EXPECT_EQ(req.path_mtu, 3);
  EXPECT_FALSE(req.srq);
  EXPECT_EQ(req.primary, (RequestPath{.local_lid = 0xffff,
                                      .remote_lid = 0xffff,
                                      .local_gid = gid("::ffff:10.77.0.3"),
                                      .remote_gid = gid("::ffff:10.77.0.2"),
                                      .flow_label = 0x3185d,
                                      .hop_limit = 64,
                                      .local_ack_timeout = 19}));
  EXPECT_EQ(req.alternate, RequestPath{});
}

TEST(CapturedMads, BeginTheirPrivateDataWithTheAddresses) {
  const Req over_ipv4 = captured<Req>("rping", "REQ");
  EXPECT_EQ(std::get<RdmaIpCmHeader>(parse_rdma_ip_cm_header(over_ipv4.private_data)),
            (RdmaIpCmHeader{4, 0x9cc9, gid("::ffff:10.77.0.3"), gid("::ffff:10.77.0.2")}));
  const Req over_ipv6 = captured<Req>("rping-ipv6", "REQ");
  EXPECT_EQ(std::get<RdmaIpCmHeader>(parse_rdma_ip_cm_header(over_ipv6.private_data)),
            (RdmaIpCmHeader{6, 0xa054, gid("fe80::5054:ff:fe4d:3"), gid("fe80::5054:ff:fe4d:2")}));
  const SidrReq resolution = captured<SidrReq>("udaddy", "SIDR_REQ");
  EXPECT_EQ(std::get<RdmaIpCmHeader>(parse_rdma_ip_cm_header(resolution.private_data)),
            (RdmaIpCmHeader{4, 0xe732, gid("::ffff:10.77.0.3"), gid("::ffff:10.77.0.2")}));
}

TEST(CapturedMads, HoldTheReplyOfRping) {
  const Rep rep = captured<Rep>("rping", "REP");
  EXPECT_EQ(rep.local_communication_id, CommunicationId{0x28a77c92});
  EXPECT_EQ(rep.remote_communication_id, CommunicationId{0xe9760c00});
  EXPECT_EQ(rep.local_qpn, Qpn{0x11});
  EXPECT_EQ(rep.starting_psn, Psn{0xc81eb1});
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.failover_accepted, 0);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_FALSE(rep.srq);
  EXPECT_EQ(rep.local_ca_guid, 0x505400fffe4d0002u);
}

TEST(CapturedMads, HoldTheEndOfRping) {
  const Rtu rtu = captured<Rtu>("rping", "RTU");
  EXPECT_EQ(rtu.local_communication_id, CommunicationId{0xe9760c00});
  EXPECT_EQ(rtu.remote_communication_id, CommunicationId{0x28a77c92});
  const Dreq dreq = captured<Dreq>("rping", "DREQ");
  EXPECT_EQ(dreq.local_communication_id, CommunicationId{0xe9760c00});
  EXPECT_EQ(dreq.remote_communication_id, CommunicationId{0x28a77c92});
  EXPECT_EQ(dreq.remote_qpn, Qpn{0x11});
  const Drep drep = captured<Drep>("rping", "DREP");
  EXPECT_EQ(drep.local_communication_id, CommunicationId{0x28a77c92});
  EXPECT_EQ(drep.remote_communication_id, CommunicationId{0xe9760c00});
}

TEST(CapturedMads, HoldTheRejectionOfAPortWhereNobodyListens) {
  const Rej rej = captured<Rej>("ucmatose-reject", "REJ");
  EXPECT_EQ(rej.local_communication_id, CommunicationId{});
  EXPECT_EQ(rej.remote_communication_id, CommunicationId{0xea760c00});
  EXPECT_EQ(rej.message_rejected, Answered::req);
  EXPECT_EQ(rej.reject_info_length, 0);
  EXPECT_EQ(rej.reason, RejectReason::invalid_service_id);
}

TEST(CapturedMads, HoldTheResolutionOfAServiceId) {
  const SidrReq req = captured<SidrReq>("udaddy", "SIDR_REQ");
  EXPECT_EQ(req.request_id, CommunicationId{0xec760c00});
  EXPECT_EQ(req.partition_key, 0xffff);
  EXPECT_EQ(req.service_id, ServiceId{0x1111c06});
  const SidrRep rep = captured<SidrRep>("udaddy", "SIDR_REP");
  EXPECT_EQ(rep.request_id, CommunicationId{0xec760c00});
  EXPECT_EQ(rep.status, SidrStatus::valid);
  EXPECT_EQ(rep.qpn, Qpn{0x15});
  EXPECT_EQ(rep.service_id, ServiceId{0x1111c06});
  EXPECT_EQ(rep.q_key, 0x01234567u);
}

TEST(CapturedMads, ArePrintedInOneLine) {
  EXPECT_EQ(text(parsed(captured_mad("rping", "DREQ"))),
            "DREQ transaction_id=0x2000c76e9 local_communication_id=0xe9760c00 remote_communication_id=0x28a77c92 "
            "remote_qpn=0x11");
  EXPECT_EQ(text(parsed(captured_mad("udaddy", "SIDR_REQ"))),
            "SIDR_REQ transaction_id=0x2000c76ec request_id=0xec760c00 partition_key=0xffff service_id=0x1111c06 "
            "private_data=0040e7320000000000000000000000000a4d00030000000000000000000000000a4d0002");
  const std::string req = text(parsed(captured_mad("rping", "REQ")));
  EXPECT_NE(req.find(" local_gid=::ffff:10.77.0.3 remote_gid=::ffff:10.77.0.2 "), std::string::npos) << req;
  EXPECT_EQ(req.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace verbatim::wire
