#include "wire/cm_message.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "wire/captured_mads.h"

namespace verbatim::wire {
namespace {

constexpr uint16_t kAttributes[] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a};

// A valid header, and whatever after it.
Mad random_mad(std::mt19937_64& random, uint16_t attribute) {
  Mad mad;
  for (uint8_t& octet : mad) octet = static_cast<uint8_t>(random());
  mad[0] = 1, mad[1] = 7, mad[2] = 2, mad[3] = 3;
  mad[16] = 0, mad[17] = static_cast<uint8_t>(attribute);
  // Where lengths of additional information stand.
  if (attribute == 0x12) mad[24 + 9] &= 0x7f;
  if (attribute == 0x18) mad[24 + 5] &= 0x3f;
  if (attribute == 0x1a) mad[24 + 8] &= 0x3f;
  return mad;
}

Reason refusal(std::span<const uint8_t> bytes) {
  const std::variant<CmMessage, Reason> result = parse_cm(bytes);
  const Reason* const reason = std::get_if<Reason>(&result);
  return reason ? *reason : Reason::none;
}

TEST(CmMessage, OfEachKindComesBackAsItWasWritten) {
  std::mt19937_64 random(1);
  for (uint16_t attribute : kAttributes) {
    for (int i = 0; i < 1000; ++i) {
      const auto first = parse_cm(random_mad(random, attribute));
      if (std::holds_alternative<Reason>(first)) continue;
      const CmMessage& message = std::get<CmMessage>(first);
      const auto second = parse_cm(emit_cm(message));
      ASSERT_TRUE(std::holds_alternative<CmMessage>(second));
      ASSERT_EQ(std::get<CmMessage>(second), message) << text(message);
    }
  }
}

TEST(CmMessage, NamesEachBitButTheReservedOnes) {
  // In each body, as tables 106 to 120 of the specification have them.
  const std::vector<std::pair<uint16_t, int>> kReservedBits{{0x10, 8 + 32 + 2 * (6 + 3) + 3 + 2},
                                                            {0x11, 6 + 3},
                                                            {0x12, 6 + 1},
                                                            {0x13, 4},
                                                            {0x14, 0},
                                                            {0x15, 8},
                                                            {0x16, 0},
                                                            {0x17, 16},
                                                            {0x18, 0},
                                                            {0x19, 32 + 3 + 32 + 4 + 2 + 3 + 3},
                                                            {0x1a, 16}};
  for (const auto& [attribute, reserved] : kReservedBits) {
    int without_effect = 0;
    for (size_t bit = 0; bit < (kMadSize - 24) * 8; ++bit) {
      Mad mad{1, 7, 2, 3};
      mad[17] = static_cast<uint8_t>(attribute);
      const CmMessage empty = std::get<CmMessage>(parse_cm(mad));
      mad[24 + bit / 8] = static_cast<uint8_t>(0x80 >> bit % 8);
      const auto result = parse_cm(mad);
      const CmMessage* const message = std::get_if<CmMessage>(&result);
      if (message && *message == empty) {
        ++without_effect;
      } else if (message) {
        EXPECT_EQ(emit_cm(*message), mad) << attribute << " " << bit;
      }
    }
    EXPECT_EQ(without_effect, reserved) << attribute;
  }
}

TEST(CmMessage, OfAnyOtherLengthIsRefused) {
  const Mad mad = captured_mad("rping", "REQ");
  std::vector<uint8_t> longer(mad.begin(), mad.end());
  longer.push_back(0);
  EXPECT_EQ(refusal(longer), Reason::mad_length);
  for (size_t length = 0; length < kMadSize; ++length) {
    // Memory of exactly that length, so that a sanitizer sees a look beyond it.
    const std::vector<uint8_t> truncated(mad.begin(), mad.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(refusal(truncated), Reason::mad_length) << length;
  }
}

TEST(CmMessage, OfAnotherClassVersionOrMethodIsRefused) {
  for (size_t octet : {0, 1, 2, 3}) {
    Mad mad = captured_mad("rping", "REQ");
    ++mad[octet];
    EXPECT_EQ(refusal(mad), Reason::mad_not_cm) << octet;
  }
}

TEST(CmMessage, OfAnUnknownAttributeIsRefused) {
  Mad mad = captured_mad("rping", "REQ");
  for (int attribute = 0; attribute < 0x10000; ++attribute) {
    mad[16] = static_cast<uint8_t>(attribute >> 8), mad[17] = static_cast<uint8_t>(attribute);
    const bool known = attribute >= 0x10 && attribute <= 0x1a;
    EXPECT_EQ(refusal(mad) == Reason::mad_attribute, !known) << attribute;
  }
}

TEST(CmMessage, WhoseAdditionalInformationIsLongerThanItsRoomIsRefused) {
  const std::vector<std::pair<CmBody, CmBody>> longest_and_longer{
      {Rej{.reject_info_length = 72}, Rej{.reject_info_length = 73}},
      {SidrRep{.additional_info_length = 72}, SidrRep{.additional_info_length = 73}},
      {Apr{.additional_info_length = 72}, Apr{.additional_info_length = 73}}};
  for (const auto& [longest, longer] : longest_and_longer) {
    EXPECT_EQ(refusal(emit_cm({1, longest})), Reason::none);
    EXPECT_EQ(refusal(emit_cm({1, longer})), Reason::mad_field);
  }
}

TEST(CmMessage, CarriesEceWhereTheSpecificationHasIt) {
  const Ece ece{.vendor_id = 0x123456, .options = 0xabcdef01};
  Mad expected{1, 7, 2, 3};
  expected[20] = 0xab, expected[21] = 0xcd, expected[22] = 0xef, expected[23] = 0x01;

  Mad req = expected;
  req[17] = 0x10, req[24 + 5] = 0x12, req[24 + 6] = 0x34, req[24 + 7] = 0x56;
  EXPECT_EQ(emit_cm({0, Req{.ece = ece}}), req);
  Mad rep = expected;
  rep[17] = 0x13, rep[24 + 15] = 0x12, rep[24 + 19] = 0x34, rep[24 + 23] = 0x56;
  EXPECT_EQ(emit_cm({0, Rep{.ece = ece}}), rep);
  Mad sidr_rep = expected;
  sidr_rep[17] = 0x18, sidr_rep[24 + 6] = 0x12, sidr_rep[24 + 7] = 0x34, sidr_rep[24 + 11] = 0x56;
  EXPECT_EQ(emit_cm({0, SidrRep{.ece = ece}}), sidr_rep);
  for (const Mad& mad : {req, rep, sidr_rep}) EXPECT_EQ(emit_cm(std::get<CmMessage>(parse_cm(mad))), mad);
}

TEST(CmMessage, PrintsWhichOneItIsAndWhatIsNotZero) {
  EXPECT_EQ(text({7, Mra{.service_timeout = 24}}), "MRA transaction_id=0x7 service_timeout=0x18");
  EXPECT_EQ(text({7, Lap{.remote_qpn = Qpn{3}}}), "LAP transaction_id=0x7 remote_qpn=0x3");
  EXPECT_EQ(text({7, Apr{.ap_status = ApStatus::not_supported}}), "APR transaction_id=0x7 ap_status=0x2");
  EXPECT_EQ(text({7, Rep{.ece = {.vendor_id = 0x10203, .options = 4}}}),
            "REP transaction_id=0x7 vendor_id_high=0x1 vendor_id_middle=0x2 vendor_id_low=0x3 ece_options=0x4");
}

}  // namespace
}  // namespace verbatim::wire
