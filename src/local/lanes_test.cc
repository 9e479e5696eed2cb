#include "local/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/local_process.h"

namespace verbatim::local {
namespace {

using testing::ElementsAre;
using testing_support::introduce;
using testing_support::LocalProcess;

// Remembers what came, and answers as it is told.
class Recorder : public Lanes::Receiver {
 public:
  std::optional<ReplyFields> serve(const Request& request) override {
    if (busy) return std::nullopt;
    numbers.push_back(request.fields().number);
    const auto payload = request.payload();
    payloads.emplace_back(payload.begin(), payload.end());
    return ReplyFields{.kind = ReplyKind::accepted, .value = request.fields().number + 1000u};
  }
  void deliver(const Awaiting& awaiting, const ReplyFields& reply) override {
    answers.push_back(awaiting.number);
    values.push_back(reply.value);
  }
  bool busy = false;
  std::vector<uint32_t> numbers;
  std::vector<std::string> payloads;
  std::vector<uint32_t> answers;
  std::vector<uint64_t> values;
};

class LanesTest : public testing::Test {
 public:
  LocalProcess a{0x10};
  LocalProcess b{0x20};
  Recorder at_a, at_b;
  Lanes& lanes_a = a.lanes();
  Lanes& lanes_b = b.lanes();

  LanesTest() {
    EXPECT_TRUE(install_guard().ok());
    introduce(a, b);
  }
  std::shared_ptr<LanePair> a_to_b() { return lanes_a.to(a.peers().find(Slot{0x20})); }
  LanePost post(LanePair& lanes, uint32_t number, std::string_view text = "") {
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    CopyFault fault;
    return lanes.post({.number = number, .length = static_cast<uint32_t>(text.size())}, {&piece, 1},
                      {.source = Qpn{1}, .number = number}, &fault);
  }
  void SetUp() override {
    a.allocate_qpn();
    b.allocate_qpn();
    introduce(a, b);
  }
};

TEST_F(LanesTest, CarriesMessagesAndTheirAnswersInOrder) {
  const auto lanes = a_to_b();
  ASSERT_TRUE(lanes);
  const std::string longer(5000, 'x');
  EXPECT_EQ(post(*lanes, 1, "short"), LanePost::shown);
  EXPECT_EQ(post(*lanes, 2, longer), LanePost::shown);
  EXPECT_EQ(lanes_b.turn(at_b), Lanes::Turn::busy);
  EXPECT_THAT(at_b.numbers, ElementsAre(1, 2));
  EXPECT_THAT(at_b.payloads, ElementsAre("short", longer));
  EXPECT_EQ(lanes_a.turn(at_a), Lanes::Turn::busy);
  EXPECT_THAT(at_a.answers, ElementsAre(1, 2));
  EXPECT_THAT(at_a.values, ElementsAre(1001, 1002));
  EXPECT_EQ(lanes_a.turn(at_a), Lanes::Turn::idle);
}

TEST_F(LanesTest, AnAnswerMayBeShownBeforeServingIsOver) {
  struct : Recorder {
    std::optional<ReplyFields> serve(const Request& request) override {
      const ReplyFields reply{.kind = ReplyKind::accepted, .value = 5};
      request.answer(reply);
      test->lanes_a.turn(test->at_a);
      seen = test->at_a.values;
      return reply;
    }
    LanesTest* test = nullptr;
    std::vector<uint64_t> seen;
  } early;
  early.test = this;
  post(*a_to_b(), 1);
  lanes_b.turn(early);
  EXPECT_THAT(early.seen, ElementsAre(5));
  lanes_a.turn(at_a);
  EXPECT_THAT(at_a.values, ElementsAre(5)) << "and it is not given twice";
}

TEST_F(LanesTest, WhatAPeerAnsweredBeforeItSentARequestIsHeardBeforeThatRequest) {
  // While a serves the first request, b answers a's message and then sends its second one.
  struct : Recorder {
    std::optional<ReplyFields> serve(const Request& request) override {
      order.push_back("request " + std::to_string(request.fields().number));
      if (request.fields().number == 1) {
        test->lanes_b.turn(test->at_b);
        test->post(*test->lanes_b.to(test->b.peers().find(Slot{0x10})), 2);
      }
      return Recorder::serve(request);
    }
    void deliver(const Awaiting& awaiting, const ReplyFields&) override {
      order.push_back("answer " + std::to_string(awaiting.number));
    }
    LanesTest* test = nullptr;
    std::vector<std::string> order;
  } busy;
  busy.test = this;
  post(*a_to_b(), 7);
  post(*lanes_b.to(b.peers().find(Slot{0x10})), 1);
  lanes_a.turn(busy);
  EXPECT_THAT(busy.order, ElementsAre("request 1", "answer 7", "request 2"));
}

TEST_F(LanesTest, AProcessTalksToItself) {
  const auto lanes = lanes_a.to(a.peers().self());
  EXPECT_EQ(post(*lanes, 7, "me"), LanePost::shown);
  lanes_a.turn(at_a);
  lanes_a.turn(at_a);
  EXPECT_THAT(at_a.payloads, ElementsAre("me"));
  EXPECT_THAT(at_a.values, ElementsAre(1007));
}

TEST_F(LanesTest, WhatIsNotDoneWithComesAgainBeforeWhatFollows) {
  const auto lanes = a_to_b();
  post(*lanes, 1);
  post(*lanes, 2);
  at_b.busy = true;
  EXPECT_EQ(lanes_b.turn(at_b), Lanes::Turn::busy);
  EXPECT_THAT(at_b.numbers, ElementsAre());
  at_b.busy = false;
  lanes_b.turn(at_b);
  EXPECT_THAT(at_b.numbers, ElementsAre(1, 2));
}

TEST_F(LanesTest, AFullLaneTakesNothingUntilAnAnswerHasCome) {
  const auto lanes = a_to_b();
  // A few places are kept for responses.
  for (uint32_t i = 0; i < kLaneRequests - 8; ++i) ASSERT_EQ(post(*lanes, i), LanePost::shown);
  EXPECT_EQ(post(*lanes, 999), LanePost::full);
  while (lanes_b.turn(at_b) == Lanes::Turn::busy) {
  }
  EXPECT_EQ(post(*lanes, 999), LanePost::full) << "answered, but nobody has read the answers";
  lanes_a.turn(at_a);
  EXPECT_EQ(post(*lanes, 999), LanePost::shown);
}

TEST_F(LanesTest, AFullLaneStillTakesResponses) {
  const auto lanes = a_to_b();
  const std::string longest(kLaneMessageBytes, 'x');
  const iovec piece{const_cast<char*>(longest.data()), longest.size()};
  const auto post_longest = [&](uint8_t flags) {
    CopyFault fault;
    return lanes->post({.flags = flags, .length = kLaneMessageBytes}, {&piece, 1}, {}, &fault);
  };
  while (post_longest(0) == LanePost::shown) continue;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(post_longest(lane_flag::kResponse), LanePost::shown) << i;
  EXPECT_EQ(post_longest(lane_flag::kResponse), LanePost::full);
}

TEST_F(LanesTest, PayloadsNeverOverlap) {
  const auto lanes = a_to_b();
  uint32_t posted = 0;
  const auto text_of = [](uint32_t number) {
    return std::string(100 + number * 977 % 8000, static_cast<char>('a' + number % 26));
  };
  for (int round = 0; round < 50; ++round) {
    while (post(*lanes, posted, text_of(posted)) == LanePost::shown) ++posted;
    lanes_b.turn(at_b);
    lanes_a.turn(at_a);
  }
  ASSERT_GT(posted, 500u);
  for (size_t i = 0; i < at_b.payloads.size(); ++i) ASSERT_EQ(at_b.payloads[i], text_of(static_cast<uint32_t>(i))) << i;
}

TEST_F(LanesTest, PayloadThatIsNotThereIsAFault) {
  const auto lanes = a_to_b();
  const iovec nowhere{nullptr, 100};
  CopyFault fault;
  EXPECT_EQ(lanes->post({.length = 100}, {&nowhere, 1}, {}, &fault), LanePost::fault);
  EXPECT_EQ(post(*lanes, 1, "still good"), LanePost::shown);
  lanes_b.turn(at_b);
  EXPECT_THAT(at_b.payloads, ElementsAre("still good"));
}

TEST_F(LanesTest, ASleepingReaderIsRungAndAnAwakeOneIsNot) {
  const auto peer = a.peers().find(Slot{0x20});
  uint64_t count = 0;
  peer->wake();
  EXPECT_EQ(read(b.adapter().doorbell_fd(), &count, sizeof count), 8);
  b.adapter().awake_word().store(1);
  peer->wake();
  EXPECT_EQ(read(b.adapter().doorbell_fd(), &count, sizeof count), -1);
}

TEST_F(LanesTest, WhatADeadPeerSentIsServedAndItsLaneIsFreeAgain) {
  const auto lanes = a_to_b();
  post(*lanes, 1, "last words");
  lanes_b.turn(at_b);
  post(*lanes, 2, "really the last");
  b.peers().remove(a.adapter().incarnation());
  EXPECT_EQ(lanes_b.turn(at_b), Lanes::Turn::busy);
  EXPECT_THAT(at_b.payloads, ElementsAre("last words", "really the last"));
  EXPECT_EQ(lanes_b.turn(at_b), Lanes::Turn::busy) << "whoever found no lane has one at the next turn";
  EXPECT_EQ(lanes_b.turn(at_b), Lanes::Turn::idle);
  EXPECT_EQ(b.adapter().view().find_lane(a.adapter().incarnation()), nullptr);
}

TEST_F(LanesTest, WhoFindsNoLaneIsHeardWhenOneIsFree) {
  LocalProcess c{0x30};
  c.allocate_qpn();
  introduce(b, c);
  post(*c.lanes().to(c.peers().find(Slot{0x20})), 7);
  lanes_b.turn(at_b);
  ASSERT_THAT(at_b.numbers, ElementsAre(7));
  for (uint64_t other = 1; b.adapter().claim_lane({other});) ++other;
  post(*a_to_b(), 1);
  lanes_b.turn(at_b);
  lanes_b.turn(at_b);
  ASSERT_THAT(at_b.numbers, ElementsAre(7)) << "no lane is left";
  b.peers().remove(c.adapter().incarnation());
  while (lanes_b.turn(at_b) == Lanes::Turn::busy) {
  }
  EXPECT_THAT(at_b.numbers, ElementsAre(7, 1));
}

TEST_F(LanesTest, WhatADeadPeerSentIsServedOnce) {
  const auto lanes = a_to_b();
  post(*lanes, 1);
  lanes_b.turn(at_b);
  b.peers().mark_dead(a.adapter().incarnation());
  lanes_b.turn(at_b);
  // News of somebody else while the table still has the dead one.
  LocalProcess c{0x30};
  introduce(b, c);
  lanes_b.turn(at_b);
  lanes_b.turn(at_b);
  EXPECT_THAT(at_b.numbers, ElementsAre(1));
}

TEST_F(LanesTest, AClaimToHaveAnsweredWhatWasNeverAskedIsNoWork) {
  post(*a_to_b(), 1);
  lanes_b.turn(at_b);
  for (uint64_t number = 0; number < kLaneRequests; ++number)
    b.adapter().lane(0).replies[number].sequence.store(number + 1);
  EXPECT_EQ(lanes_a.turn(at_a), Lanes::Turn::busy);
  EXPECT_THAT(at_a.answers, ElementsAre(1));
  EXPECT_EQ(lanes_a.turn(at_a), Lanes::Turn::idle);
}

TEST_F(LanesTest, APeerThatSendsNonsenseIsNotHeardAnyMore) {
  const auto lanes = a_to_b();
  CopyFault fault;
  EXPECT_EQ(lanes->post({.length = 1u << 30}, {}, {}, &fault), LanePost::shown);
  post(*lanes, 2, "more");
  lanes_b.turn(at_b);
  lanes_b.turn(at_b);
  EXPECT_THAT(at_b.numbers, ElementsAre());
}

TEST_F(LanesTest, ManyThreadsSendWhileOthersServe) {
  constexpr uint32_t kEach = 2000;
  const auto lanes = a_to_b();
  std::atomic<bool> done{false};
  std::atomic<uint32_t> answered{0};
  struct Counting final : Lanes::Receiver {
    explicit Counting(std::atomic<uint32_t>* count) : count(count) {}
    std::optional<ReplyFields> serve(const Request& request) override {
      const auto payload = request.payload();
      for (uint8_t byte : payload)
        if (byte != static_cast<uint8_t>(request.fields().number)) ++wrong;
      return ReplyFields{.kind = ReplyKind::accepted};
    }
    void deliver(const Awaiting&, const ReplyFields&) override { count->fetch_add(1); }
    std::atomic<uint32_t>* count;
    uint32_t wrong = 0;
  } server{&answered};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!done) lanes_b.turn(server);
    });
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; ++i) {
        const std::string text(1 + (i * 131 + static_cast<uint32_t>(t)) % 300, static_cast<char>(i));
        while (post(*lanes, i, text) == LanePost::full) lanes_a.turn(server);
      }
      while (answered < 2 * kEach) lanes_a.turn(server);
      done = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 2 * kEach);
  EXPECT_EQ(server.wrong, 0u);
}

}  // namespace
}  // namespace verbatim::local
