// Every request that was posted completes once and in its place, whatever is mixed, in whatever order both ends look,
// and whatever ends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "base/random.h"
#include "support/message_ends.h"

namespace verbatim::model {
namespace {

using namespace testing_support;
using enum CompletionStatus;

// A random life of a connection: what was posted, and what is known to be right about its completions.
class Story : public MessageEnds {
 public:
  Story(QueuePairType type, bool shares, uint64_t seed) : MessageEnds(type, shares), random_(seed) {
    b.region = b.side.register_memory(b.memory.data(), b.memory.size(), kEverything | access::kRemoteAtomic);
    QueuePairAttributes attributes = a_attributes();
    attributes.rnr_retry = 7;
    bring(*b.qp, b_attributes());
    bring(*a.qp, attributes);
  }
  ~Story() { b.qp.reset(); }

  void step() {
    switch (draw(10)) {
      case 0:
      case 1:
      case 2:
        post_one();
        break;
      case 3:
      case 4:
        if (receive(next_receive_).ok()) receives_.push_back(next_receive_++);
        break;
      case 5:
      case 6:
        take_a(poll(*a.cq, 1 + static_cast<int>(draw(3))));
        break;
      case 7:
      case 8:
        wake_b();
        take_b(poll(*b.cq, 1 + static_cast<int>(draw(3))));
        break;
      case 9:
        pass(Duration::microseconds(static_cast<int64_t>(draw(2000))));
        break;
    }
  }
  // All that was posted succeeds if there are receives enough.
  void finish() {
    while (!sends_.empty()) {
      post_one(true);
      if (receive(next_receive_).ok()) receives_.push_back(next_receive_++);
      drain();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(covered_, next_send_);
    if (a.qp->type() == QueuePairType::rc) {
      EXPECT_TRUE(lengths_.empty()) << "a message is lost";
    }
  }
  // What b does to its own end, or a to its, and all that is left is flushed.
  void end_in_error() {
    switch (draw(3)) {
      case 0:
        ASSERT_TRUE(modify(*a.qp, QueuePairState::err).ok());
        break;
      case 1: {
        SendWork bad = write(next_send_);
        bad.rkey.value ^= 1;
        if (!a.post(bad).ok()) break;
        sends_.push_back({next_send_++, true});
        break;
      }
      case 2:
        a_learns_that_b_died();
        post_one(true);
        break;
    }
    may_fail_ = true;
    drain();
    if (a.qp->state() != QueuePairState::err) {
      ASSERT_TRUE(modify(*a.qp, QueuePairState::err).ok());
    }
    ASSERT_TRUE(modify(*b.qp, QueuePairState::err).ok());
    drain();
    EXPECT_EQ(covered_, next_send_) << "a request has vanished";
    if (!shared) {
      EXPECT_TRUE(receives_.empty()) << "a receive has vanished";
    }
  }

 private:
  struct Posted {
    uint64_t id;
    bool signaled;
  };
  uint64_t draw(uint64_t below) { return random_() % below; }

  void post_one(bool signaled = false) {
    static constexpr uint32_t kLengths[] = {0, 1, 64, 73, 1000, 8192, 8193, 20'000};
    const uint32_t length = kLengths[draw(std::size(kLengths))];
    SendWork work;
    const bool connected_reliably = a.qp->type() == QueuePairType::rc;
    switch (draw(connected_reliably ? 6 : 4)) {
      case 0:
      case 1:
        work = send(next_send_, length);
        break;
      case 2:
        work = write_with_imm(next_send_, length);
        break;
      case 3:
        work = write(next_send_, length);
        break;
      case 4:
        work = read(next_send_, length);
        break;
      case 5:
        work = fetch_add(next_send_, 1);
        break;
    }
    work.signaled = signaled || draw(3) != 0;
    work.fence = draw(8) == 0;
    if (!a.post(work).ok()) return;
    sends_.push_back({next_send_++, work.signaled});
    if (local::takes_receive(work.opcode)) lengths_.push_back(static_cast<uint32_t>(work.length));
  }
  void drain() {
    settle();
    take_a(std::exchange(at_a, {}));
    take_b(std::exchange(at_b, {}));
    // What is still there was posted unsignaled and is executed.
    if (!sends_.empty() && a.qp->state() == QueuePairState::err) {
      while (!sends_.empty() && !sends_.front().signaled && !failed_) skip();
    }
  }
  void skip() {
    covered_ = sends_.front().id + 1;
    sends_.pop_front();
  }
  void take_a(const std::vector<Completion>& completions) {
    for (const Completion& completion : completions) {
      // It also speaks for the unsignaled requests before it; but after a failure each speaks for itself.
      while (!sends_.empty() && sends_.front().id != completion.work_id) {
        ASSERT_FALSE(sends_.front().signaled || failed_) << "request " << sends_.front().id << " is left out";
        skip();
      }
      ASSERT_FALSE(sends_.empty()) << "request " << completion.work_id << " completes twice or too early";
      if (completion.status == success) {
        ASSERT_TRUE(sends_.front().signaled && !failed_);
      } else {
        ASSERT_TRUE(may_fail_) << name(completion.status) << " " << describe(completion.reason).name;
        ASSERT_TRUE(!failed_ || completion.status == flushed);
        failed_ = true;
      }
      skip();
    }
  }
  void take_b(const std::vector<Completion>& completions) {
    for (const Completion& completion : completions) {
      ASSERT_FALSE(receives_.empty());
      ASSERT_EQ(completion.work_id, receives_.front());
      receives_.pop_front();
      if (completion.status != success) {
        ASSERT_TRUE(may_fail_);
        continue;
      }
      if (a.qp->type() != QueuePairType::rc) continue;
      ASSERT_FALSE(lengths_.empty());
      ASSERT_EQ(completion.byte_length, lengths_.front()) << "a message is lost, doubled or out of order";
      lengths_.pop_front();
    }
  }

  std::mt19937_64 random_;
  uint64_t next_send_ = 0, next_receive_ = 0;
  uint64_t covered_ = 0;  // requests whose end is known
  std::deque<Posted> sends_;
  std::deque<uint64_t> receives_;
  std::deque<uint32_t> lengths_;  // of the messages that are to be received
  bool may_fail_ = false, failed_ = false;
};

struct EveryRequest : testing::TestWithParam<std::tuple<QueuePairType, bool>> {
  void tell_stories(bool in_error) {
    const uint64_t first = random_u64();
    for (uint64_t seed = first; seed != first + 12; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Story story(std::get<0>(GetParam()), std::get<1>(GetParam()), seed);
      for (int i = 0; i < 400 && !HasFailure(); ++i) story.step();
      if (in_error)
        story.end_in_error();
      else
        story.finish();
      if (HasFailure()) return;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Types, EveryRequest,
                         testing::Combine(testing::Values(QueuePairType::rc, QueuePairType::uc), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == QueuePairType::rc ? "Rc" : "Uc") +
                                  (std::get<1>(info.param) ? "Shared" : "");
                         });

TEST_P(EveryRequest, CompletesOnceAndInOrder) { tell_stories(false); }
TEST_P(EveryRequest, CompletesOnceAndInOrderAlsoAfterAnError) { tell_stories(true); }

// ---- threads ----

struct TwoThreads : testing::Test, MessageEnds {};

TEST_F(TwoThreads, ThatPostAndPollAtBothEndsLoseNothing) {
  constexpr uint64_t kMessages = 3000;
  QueuePairAttributes attributes = a_attributes();
  attributes.rnr_retry = 7;
  bring(*a.qp, attributes);
  attributes.destination = a.qp->qpn();
  bring(*b.qp, attributes);
  std::atomic<bool> failed{false};
  std::atomic<int> ready{0};
  // Each end sends and receives, and looks after its own process alone.
  const auto run = [&](End& own, End& other) {
    uint64_t sent = 0, answered = 0, posted = 0, taken = 0;
    const Sge sink{reinterpret_cast<uint64_t>(own.memory.data()) + 512 * 1024, 32 * 1024, own.region->key()};
    const Sge source{reinterpret_cast<uint64_t>(own.memory.data()), 32 * 1024, own.region->key()};
    ready.fetch_add(1);
    while (ready.load() != 2) std::this_thread::yield();
    while ((answered < kMessages || taken < kMessages) && !failed) {
      if (posted < kMessages && own.qp->post_receive({posted, {&sink, 1}}).ok()) ++posted;
      Sge piece = source;
      piece.length = static_cast<uint32_t>(sent * 37 % (sent % 16 == 0 ? 20'000 : 200));
      SendWork work{
          .work_id = sent, .opcode = SendOpcode::send, .signaled = true, .sges = {&piece, 1}, .length = piece.length};
      if (sent % 5 == 4) {
        work.opcode = SendOpcode::rdma_write;
        work.rkey = other.region->key();
        work.remote_address = reinterpret_cast<uint64_t>(other.memory.data()) + 256 * 1024;
      }
      if (sent < kMessages && own.post(work).ok()) ++sent;
      if (!own.side.device.lanes().in_use()) own.side.device.carry_on(own.side.clock.now());
      own.cq->poll(8, [&](const Completion& completion) {
        const bool receives = completion.opcode == CompletionOpcode::receive;
        if (completion.status != success || completion.work_id != (receives ? taken : answered)) failed = true;
        ++(receives ? taken : answered);
      });
      // Every fifth request takes no receive at the other end.
      if (answered == kMessages && taken == kMessages / 5 * 4) break;
    }
    EXPECT_EQ(answered, kMessages);
    EXPECT_EQ(taken, kMessages / 5 * 4);
    ready.fetch_add(1);
    // The other end may still need answers.
    while (ready.load() != 4 && !failed) own.cq->poll(8, [&](const Completion&) { failed = true; });
  };
  std::thread thread([&] { run(b, a); });
  run(a, b);
  thread.join();
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace verbatim::model
