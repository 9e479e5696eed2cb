#include "agent/cm_protocol.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "support/two_hosts.h"

namespace verbatim::agent {
namespace {

using namespace commands;

constexpr size_t kKind = 6;

cm::Path sample_path() {
  return {.source = cm::ipv4("192.0.2.1").ip,
          .destination = cm::ipv4("192.0.2.2").ip,
          .interface_index = 3,
          .flow_label = 4,
          .traffic_class = 5,
          .hop_limit = 6,
          .partition_key = 7,
          .mtu = 8,
          .rate = 9,
          .packet_lifetime = 10,
          .service_level = 11};
}

cm::Offer sample_offer() {
  return {.parameters = {.qpn = {1},
                         .srq = true,
                         .responder_resources = 2,
                         .initiator_depth = 3,
                         .flow_control = true,
                         .retry_count = 4,
                         .rnr_retry_count = 5},
          .private_data = cm::bytes(cm::PrivateData::kMost),
          .ece = {6, 7},
          .q_key = 8};
}

cm::Event sample_event() {
  return {.type = cm::EventType::timewait_exit,
          .id = {1},
          .context = 2,
          .listener = {3},
          .status = -4,
          .connection = sample_offer().parameters,
          .datagram = {sample_path(), {5}, 6},
          .private_data = cm::bytes(cm::PrivateData::kMost),
          .ece = {7, 8},
          .membership = {9}};
}

cm::IdView sample_view() {
  return {.state = cm::IdState::device_removed,
          .channel = {1},
          .space = cm::PortSpace::ib,
          .qp_type = cm::QpType::xrc_receive,
          .source = cm::ipv6("fe80::1", 2, 3),
          .destination = cm::ipv6("fe80::2", 4, 5),
          .has_device = true,
          .path = sample_path(),
          .qp = cm::QpAttributes{sample_path(), {1}, {2}, {3}, {4}, 5, 6, 7, 8, 9, true},
          .knows_peer = true,
          .ack_timeout = 6,
          .tos = 7};
}

Taken sample_taken() { return {sample_event(), sample_view()}; }

// One of each kind, with no field at its default.
const std::vector<Command> kCommands{
    OpenChannel{},
    Create{{1}, {2}, cm::PortSpace::udp, cm::QpType::ud, 3},
    Destroy{{1}, {2}, 3},
    Migrate{{1}, {2}, 3, {4}},
    SetContext{{1}, 2},
    Query{{1}},
    SetTos{{1}, 2},
    SetAckTimeout{{1}, 2},
    SetReuseAddress{{1}, true},
    SetFamilyOnly{{1}, true},
    SetPath{{1}, sample_path()},
    Bind{{1}, cm::ipv4("192.0.2.1", 2), true},
    ResolveAddress{{1}, {cm::ipv6("::1", 2), cm::ipv6("::2", 3), Duration::milliseconds(4), true}},
    ResolveRoute{{1}},
    Listen{{1}, -2},
    TakeRequest{{1}},
    Connect{{1}, sample_offer()},
    Accept{{1}, sample_offer()},
    Establish{{1}},
    Reject{{1}, wire::RejectReason::vendor_option_not_supported, cm::bytes(148)},
    Disconnect{{1}},
    NotifyEstablished{{1}},
    Join{{1}, cm::ipv6("ff02::1"), 2},
    Leave{{1}, {2}, 3},
};

const std::vector<Answer> kAnswers{Failure{ENOENT},         Nothing{},     cm::Channel{1},
                                   cm::MembershipHandle{1}, sample_view(), Ended{1}};

size_t descriptors_of(const Answer& answer) { return std::holds_alternative<cm::Channel>(answer) ? 1 : 0; }

int error_of(const Frame& frame) { return decode_command(frame.view(), 0).error(); }

// The place of a byte of the body.
Frame spoiled(Frame frame, size_t at, uint8_t value) {
  frame.bytes[kFrameHeader + at] = std::byte{value};
  return frame;
}

TEST(CmProtocol, TheSamplesAreOneOfEachKind) {
  ASSERT_EQ(kCommands.size(), std::variant_size_v<Command>);
  for (size_t i = 0; i < kCommands.size(); ++i) EXPECT_EQ(kCommands[i].index(), i);
  ASSERT_EQ(kAnswers.size(), std::variant_size_v<Answer>);
  for (size_t i = 0; i < kAnswers.size(); ++i) EXPECT_EQ(kAnswers[i].index(), i);
}

TEST(CmProtocol, CommandsComeBackAsTheyWereSent) {
  for (const Command& command : kCommands) {
    const Frame frame = encode(command);
    const Result<Command> back = decode_command(frame.view(), 0);
    ASSERT_TRUE(back.ok()) << command.index();
    EXPECT_EQ(back.value().index(), command.index());
    EXPECT_TRUE(std::ranges::equal(encode(back.value()).view(), frame.view())) << command.index();
  }
}

TEST(CmProtocol, AnswersComeBackAsTheyWereSent) {
  for (const Answer& answer : kAnswers) {
    const Frame frame = encode(answer);
    const Result<Answer> back = decode_answer(frame.view(), descriptors_of(answer));
    ASSERT_TRUE(back.ok()) << answer.index();
    EXPECT_EQ(back.value().index(), answer.index());
    EXPECT_TRUE(std::ranges::equal(encode(back.value()).view(), frame.view())) << answer.index();
  }
}

TEST(CmProtocol, EventsComeBackAsTheyWereSent) {
  const Frame frame = encode(sample_taken());
  const Result<Taken> back = decode_event(frame.view());
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(std::ranges::equal(encode(back.value()).view(), frame.view()));
  for (size_t size = 0; size < frame.size; ++size)
    EXPECT_EQ(decode_event(frame.view().first(size)).error(), EPROTO) << size;
  EXPECT_EQ(decode_event(encode(Answer(Nothing{})).view()).error(), EPROTO);
}

TEST(CmProtocol, ValuesComeBackInTheirPlaces) {
  const auto resolve = decode_command(encode(kCommands[12]).view(), 0);
  const cm::Resolve& what = std::get<ResolveAddress>(resolve.value()).what;
  EXPECT_EQ(what.source, cm::ipv6("::1", 2));
  EXPECT_EQ(what.destination, cm::ipv6("::2", 3));
  EXPECT_EQ(what.timeout, Duration::milliseconds(4));
  EXPECT_TRUE(what.privileged);
  const auto connect = decode_command(encode(kCommands[16]).view(), 0);
  const cm::Offer& offer = std::get<Connect>(connect.value()).offer;
  EXPECT_EQ(offer.parameters, sample_offer().parameters);
  EXPECT_EQ(offer.private_data, sample_offer().private_data);
  EXPECT_EQ(offer.ece, sample_offer().ece);
  EXPECT_EQ(offer.q_key, 8u);

  const Result<Taken> bare_event = decode_event(encode(Taken{sample_event(), {}}).view());
  EXPECT_FALSE(bare_event.value().view.has_value());
  const cm::Event& event = bare_event.value().event;
  EXPECT_EQ(event.listener, cm::IdHandle{3});
  EXPECT_EQ(event.status, -4);
  EXPECT_EQ(event.datagram, sample_event().datagram);
  EXPECT_EQ(event.membership, cm::MembershipHandle{9});
  const auto view_answer = decode_answer(encode(Answer(sample_view())).view(), 0);
  const cm::IdView& view = std::get<cm::IdView>(view_answer.value());
  EXPECT_EQ(view.path, sample_path());
  EXPECT_EQ(view.qp, sample_view().qp);
  EXPECT_EQ(view.ack_timeout, 6);
  EXPECT_EQ(view.tos, 7);
  const auto bare_answer = decode_answer(encode(Answer(cm::IdView{})).view(), 0);
  const cm::IdView& bare = std::get<cm::IdView>(bare_answer.value());
  EXPECT_FALSE(bare.path || bare.qp || bare.ack_timeout || bare.tos);
}

TEST(CmProtocol, EveryShorterOrLongerMessageIsMalformed) {
  for (const Command& command : kCommands) {
    const Frame frame = encode(command);
    for (size_t size = 0; size <= kMaxFrame; ++size) {
      Frame other = frame;
      other.size = size;
      EXPECT_EQ(error_of(other), size == frame.size ? 0 : EPROTO) << command.index() << ": " << size;
    }
  }
}

TEST(CmProtocol, DescriptorsComeWithAChannelOnly) {
  for (const Command& command : kCommands) {
    const bool takes_one = std::holds_alternative<Destroy>(command) || std::holds_alternative<Migrate>(command) ||
                           std::holds_alternative<Leave>(command);
    EXPECT_EQ(decode_command(encode(command).view(), 1).error(), takes_one ? 0 : EPROTO) << command.index();
    EXPECT_EQ(decode_command(encode(command).view(), 2).error(), EPROTO) << command.index();
  }
  for (const Answer& answer : kAnswers) {
    const size_t right = descriptors_of(answer);
    for (size_t count = 0; count <= kMaxDescriptors; ++count)
      EXPECT_EQ(decode_answer(encode(answer).view(), count).error(), count == right ? 0 : EPROTO) << answer.index();
  }
}

TEST(CmProtocol, OnlyTheKindsOfOneDirectionAreUnderstood) {
  const Frame bare = encode(kCommands[0]);
  for (int kind = 0; kind < 256; ++kind) {
    Frame frame = bare;
    frame.bytes[kKind] = std::byte(kind);
    // Those without a body: OPEN_CHANNEL, and the answer that says nothing.
    EXPECT_EQ(error_of(frame), kind == int(bare.bytes[kKind]) ? 0 : EPROTO) << kind;
    const int nothing = int(encode(Answer(Nothing{})).bytes[kKind]);
    EXPECT_EQ(decode_answer(frame.view(), 0).error(), kind == nothing ? 0 : EPROTO) << kind;
  }
}

TEST(CmProtocol, ValuesThatThereAreNotAreMalformed) {
  const Frame create = encode(kCommands[1]);
  EXPECT_EQ(error_of(spoiled(create, 16, 0x12)), EPROTO) << "a port space";
  EXPECT_EQ(error_of(spoiled(create, 18, 5)), EPROTO) << "a type of queue pair";
  EXPECT_EQ(error_of(spoiled(encode(kCommands[8]), 8, 2)), EPROTO) << "neither false nor true";
  const Frame bind = encode(kCommands[11]);
  EXPECT_EQ(error_of(spoiled(bind, 8, 3)), EPROTO) << "a family";
  EXPECT_EQ(error_of(spoiled(bind, 9, 1)), EPROTO) << "an IPv4 address that is none";
  const Frame connect = encode(kCommands[16]);
  EXPECT_EQ(error_of(spoiled(connect, 8 + 10, 1)), EPROTO) << "more private data than there is room for";
  EXPECT_EQ(error_of(spoiled(connect, 8 + 11, 0)), EPROTO) << "less than there is";
  const Frame resolve = encode(kCommands[12]);
  constexpr size_t kTimeout = 8 + 2 * 23;
  EXPECT_EQ(error_of(spoiled(resolve, kTimeout + 7, 0x80)), EPROTO) << "a time before now";
  EXPECT_EQ(error_of(spoiled(resolve, kTimeout + 7, 0x7f)), EPROTO) << "a time beyond all times";
  const auto failure = spoiled(encode(kAnswers[0]), 0, 0);
  EXPECT_EQ(decode_answer(failure.view(), 0).error(), EPROTO) << "a failure of nothing";
}

}  // namespace
}  // namespace verbatim::agent
