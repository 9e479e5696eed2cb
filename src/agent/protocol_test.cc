#include "agent/protocol.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace verbatim::agent {
namespace {

Hello sample_hello() {
  Hello hello{.incarnation = 0x1122334455667788, .start_time = 99, .segment_size = 1 << 20};
  std::memcpy(hello.comm.data(), "ib_write_bw", 12);
  hello.slots = SlotList::of(std::array{Slot{1}, Slot{0xffe}});
  return hello;
}

Peer sample_peer() { return {.incarnation = 7, .start_time = 3, .segment_size = 4096, .pid = 42, .slots = {}}; }

// The frame with one byte changed.
Frame spoiled(Frame frame, size_t at, uint8_t value) {
  frame.bytes[at] = std::byte{value};
  return frame;
}

int error_of(const Frame& frame, size_t descriptors) { return decode_to_agent(frame.view(), descriptors).error(); }

constexpr size_t kHeader = 8;

TEST(Protocol, HelloComesBackAsItWasSent) {
  const Result<ToAgent> message = decode_to_agent(encode(ToAgent(sample_hello())).view(), 2);
  ASSERT_TRUE(message.ok());
  const Hello& hello = std::get<Hello>(message.value());
  EXPECT_EQ(hello.incarnation, 0x1122334455667788u);
  EXPECT_EQ(hello.start_time, 99u);
  EXPECT_EQ(hello.segment_size, 1u << 20);
  EXPECT_STREQ(hello.comm.data(), "ib_write_bw");
  EXPECT_EQ(hello.slots.list(), (std::vector<Slot>{{1}, {0xffe}}));
}

TEST(Protocol, RequestsComeBackAsTheyWereSent) {
  const auto add = decode_to_agent(encode(ToAgent(AddSlot{12})).view(), 0);
  const auto introduce = decode_to_agent(encode(ToAgent(Introduce{0xffe})).view(), 0);
  const auto known = decode_to_agent(encode(ToAgent(KnownPeer{5, 6, 7})).view(), 0);
  const auto everyone = decode_to_agent(encode(ToAgent(IntroduceEveryone{})).view(), 0);
  const auto manage = decode_to_agent(encode(ToAgent(Manage{8})).view(), 0);
  ASSERT_TRUE(add.ok() && introduce.ok() && known.ok() && everyone.ok() && manage.ok());
  EXPECT_EQ(std::get<Manage>(manage.value()).start_time, 8u);
  EXPECT_TRUE(std::holds_alternative<IntroduceEveryone>(everyone.value()));
  EXPECT_EQ(std::get<AddSlot>(add.value()).slot, 12u);
  EXPECT_EQ(std::get<Introduce>(introduce.value()).slot, 0xffeu);
  const KnownPeer& peer = std::get<KnownPeer>(known.value());
  EXPECT_EQ(peer.incarnation, 5u);
  EXPECT_EQ(peer.start_time, 6u);
  EXPECT_EQ(peer.pid, 7);
}

TEST(Protocol, AnswersComeBackAsTheyWereSent) {
  const auto welcome = decode_to_member(encode(ToMember(Welcome{})).view(), 0);
  const auto refused = decode_to_member(encode(ToMember(Refused{7})).view(), 0);
  const auto peer = decode_to_member(encode(ToMember(sample_peer())).view(), 2);
  const auto slot = decode_to_member(encode(ToMember(PeerSlot{8, 9})).view(), 0);
  const auto dead = decode_to_member(encode(ToMember(Dead{10, 11})).view(), 0);
  const auto everyone = decode_to_member(encode(ToMember(Everyone{})).view(), 0);
  const auto unowned = decode_to_member(encode(ToMember(Unowned{12})).view(), 0);
  ASSERT_TRUE(welcome.ok() && refused.ok() && peer.ok() && slot.ok() && dead.ok() && everyone.ok() && unowned.ok());
  EXPECT_TRUE(std::holds_alternative<Everyone>(everyone.value()));
  EXPECT_TRUE(std::holds_alternative<Welcome>(welcome.value()));
  EXPECT_EQ(std::get<Refused>(refused.value()).reason, 7u);
  EXPECT_EQ(std::get<Peer>(peer.value()).pid, 42);
  EXPECT_EQ(std::get<Peer>(peer.value()).segment_size, 4096u);
  EXPECT_EQ(std::get<PeerSlot>(slot.value()).slot, 9u);
  EXPECT_EQ(std::get<Dead>(dead.value()).pid, 11);
  EXPECT_EQ(std::get<Unowned>(unowned.value()).slot, 12u);
}

TEST(Protocol, EveryShorterOrLongerMessageIsMalformed) {
  const Frame frame = encode(ToAgent(sample_hello()));
  for (size_t size = 0; size <= kMaxFrame; ++size) {
    Frame other = frame;
    other.size = size;
    EXPECT_EQ(error_of(other, 2), size == frame.size ? 0 : EPROTO) << size;
  }
}

TEST(Protocol, TheNumberOfDescriptorsMustBeTheKinds) {
  EXPECT_EQ(error_of(encode(ToAgent(sample_hello())), 0), EPROTO);
  EXPECT_EQ(error_of(encode(ToAgent(sample_hello())), 1), EPROTO);
  EXPECT_EQ(error_of(encode(ToAgent(Introduce{1})), 2), EPROTO);
}

TEST(Protocol, AForeignMagicNumberIsMalformedAndAnotherVersionIsNamedSo) {
  const Frame frame = encode(ToAgent(Introduce{1}));
  EXPECT_EQ(error_of(spoiled(frame, 0, 0), 0), EPROTO);
  EXPECT_EQ(error_of(spoiled(frame, 4, 3), 0), EPROTONOSUPPORT);
}

TEST(Protocol, OnlyTheKindsOfOneDirectionAreUnderstood) {
  for (int kind = 0; kind < 256; ++kind) {
    const Frame frame = spoiled(encode(ToAgent(Introduce{1})), 6, static_cast<uint8_t>(kind));
    const bool same_shape =
        kind == int(MessageKind::introduce) || kind == int(MessageKind::add_slot) || kind == int(MessageKind::manage);
    EXPECT_EQ(error_of(frame, 0), same_shape ? 0 : EPROTO) << kind;
    EXPECT_EQ(decode_to_member(frame.view(), 0).error(), kind == int(MessageKind::unowned) ? 0 : EPROTO) << kind;
  }
  EXPECT_EQ(error_of(encode(ToMember(Welcome{})), 0), EPROTO);
}

TEST(Protocol, SlotsOutsideTheRangeAreMalformed) {
  const Frame frame = encode(ToAgent(Introduce{1}));
  EXPECT_EQ(error_of(spoiled(frame, kHeader, 0), 0), EPROTO);      // the agent's own
  EXPECT_EQ(error_of(spoiled(frame, kHeader + 2, 1), 0), EPROTO);  // 0x10001
  Frame last = spoiled(spoiled(frame, kHeader, 0xff), kHeader + 1, 0xf);
  EXPECT_EQ(error_of(last, 0), EPROTO);
  EXPECT_EQ(error_of(spoiled(last, kHeader, 0xfe), 0), 0);
}

TEST(Protocol, AHelloWithTooManyDoubleOrNoSlotsIsMalformed) {
  const Frame frame = encode(ToAgent(sample_hello()));
  constexpr size_t kCount = kHeader + 40;
  EXPECT_EQ(error_of(spoiled(frame, kCount, 0), 2), EPROTO);
  EXPECT_EQ(error_of(spoiled(frame, kCount, 17), 2), EPROTO);
  EXPECT_EQ(error_of(spoiled(frame, kCount + 7, 0x80), 2), EPROTO);
  EXPECT_EQ(error_of(spoiled(frame, kCount, 3), 2), EPROTO);  // the third is 0
  Frame twice = spoiled(spoiled(frame, kCount + 10, 1), kCount + 11, 0);
  EXPECT_EQ(error_of(twice, 2), EPROTO);
}

TEST(Protocol, ZeroIncarnationsEmptySegmentsAndImpossiblePidsAreMalformed) {
  Frame hello = encode(ToAgent(sample_hello()));
  std::memset(hello.bytes.data() + kHeader, 0, 8);
  EXPECT_EQ(error_of(hello, 2), EPROTO);
  hello = encode(ToAgent(sample_hello()));
  std::memset(hello.bytes.data() + kHeader + 16, 0, 8);
  EXPECT_EQ(error_of(hello, 2), EPROTO);
  const Frame known = encode(ToAgent(KnownPeer{5, 6, 7}));
  EXPECT_EQ(error_of(spoiled(known, kHeader + 16, 0), 0), EPROTO);
  EXPECT_EQ(error_of(spoiled(known, kHeader + 23, 0x80), 0), EPROTO);
}

TEST(Protocol, EveryRefusalHasASentenceOfItsOwn) {
  for (uint32_t a = 1; a <= uint32_t(Refusal::does_not_read); ++a) {
    EXPECT_NE(describe(Refusal{a}), describe(Refusal{0})) << a;
    for (uint32_t b = 1; b < a; ++b) EXPECT_NE(describe(Refusal{a}), describe(Refusal{b}));
  }
}

}  // namespace
}  // namespace verbatim::agent
