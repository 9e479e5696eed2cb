#include "engine/engine.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "support/on_processor.h"
#include "support/pause.h"
#include "support/test_device.h"

namespace verbatim::engine {
namespace {

using testing_support::kPatienceWithStrangers;
using testing_support::modify;
using testing_support::OnProcessor;
using testing_support::RandomPause;
using testing_support::TestDevice;

// The device is made before its engine, which needs the device's clock.
class ForwardingWaker final : public model::Waker {
 public:
  void wake() override {
    if (model::Waker* to = to_.load(std::memory_order_acquire)) to->wake();
  }
  void forward_to(model::Waker* to) { to_.store(to, std::memory_order_release); }

 private:
  std::atomic<model::Waker*> to_{nullptr};
};

// An eventfd, and how often the engine found it readable.
class CountedSource {
 public:
  int fd() const { return fd_.get(); }
  int count() const { return count_.load(); }
  std::thread::id handler() const { return handler_.load(); }
  void ring() const {
    const uint64_t one = 1;
    EXPECT_EQ(write(fd_.get(), &one, sizeof one), 8);
  }
  void wait_for(int count) const {
    while (count_.load() < count) std::this_thread::yield();
  }
  Engine::Source source() {
    return {fd_.get(), [this] {
              uint64_t value;
              EXPECT_EQ(read(fd_.get(), &value, sizeof value), 8);
              handler_.store(std::this_thread::get_id());
              count_.fetch_add(1);
            }};
  }

 private:
  FileDescriptor fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> count_{0};
  std::atomic<std::thread::id> handler_{};
};

struct EngineTest : testing::Test {
  ForwardingWaker waker;
  TestDevice side{0x10, {}, &waker};
  std::unique_ptr<Engine> engine = std::make_unique<Engine>(side.clock);

  EngineTest() { waker.forward_to(engine.get()); }
  ~EngineTest() override { stop(); }
  void stop() {
    waker.forward_to(nullptr);
    engine.reset();
  }
  void start(std::vector<Engine::Source> sources = {}) {
    ASSERT_TRUE(engine->start(side.device, std::move(sources), nullptr).ok());
  }
};

// A queue pair whose request waits for a peer that nobody knows: its end, when time is over, is the engine's work.
struct Waiter {
  explicit Waiter(TestDevice& side)
      : cq(side.make_cq(4)),
        qp(model::QueuePair::create(side.device, side.events,
                                    {.pd = side.pd.get(),
                                     .send_cq = cq.get(),
                                     .receive_cq = cq.get(),
                                     .capabilities = {.max_send_wr = 1, .max_send_sge = 1}})
               .take()) {
    make_ready();
  }
  void make_ready() { testing_support::connect(*qp, Qpn::of(Slot{0x99}, 1)); }
  void begin() { EXPECT_TRUE(model::QueuePair::Posting(*qp).send({}).ok()); }
  void wait_for_its_end() const {
    while (qp->state() != QueuePairState::err) std::this_thread::yield();
  }
  void make_ready_again() {
    EXPECT_TRUE(modify(*qp, QueuePairState::reset).ok());
    make_ready();
  }

  std::unique_ptr<model::CompletionQueue> cq;
  std::unique_ptr<model::QueuePair> qp;
};

TEST_F(EngineTest, IsInTheMiddleOfNothingWhileItIsPaused) {
  std::atomic<bool> inside{false};
  RandomPause pause(1);
  CountedSource source;
  Engine::Source busy = source.source();
  busy.handle = [&inside, &pause, handle = busy.handle] {
    inside = true;
    pause(10'000);
    handle();
    inside = false;
  };
  start({busy});
  for (int round = 0; round < 300; ++round) {
    source.ring();
    engine->pause();
    EXPECT_FALSE(inside);
    const int count = source.count();
    source.ring();
    std::this_thread::yield();
    EXPECT_EQ(source.count(), count);
    engine->resume();
  }
  stop();
}

TEST_F(EngineTest, HandlesEverySourceOnItsOwnThread) {
  std::array<CountedSource, 40> counted;
  std::vector<Engine::Source> sources;
  for (CountedSource& source : counted) sources.push_back(source.source());
  start(std::move(sources));
  for (int round = 1; round <= 20; ++round) {
    for (CountedSource& source : counted) source.ring();
    for (CountedSource& source : counted) source.wait_for(round);
  }
  for (CountedSource& source : counted) {
    EXPECT_EQ(source.handler(), counted[0].handler());
    EXPECT_NE(source.handler(), std::this_thread::get_id());
  }
}

TEST_F(EngineTest, StartsOnce) {
  EXPECT_FALSE(engine->running());
  CountedSource first, second;
  start({first.source()});
  EXPECT_TRUE(engine->running());
  start({second.source()});
  second.ring();
  first.ring();
  first.wait_for(1);
  EXPECT_EQ(second.count(), 0);
}

TEST_F(EngineTest, AStartThatFailsMayBeTriedAgain) {
  EXPECT_EQ(engine->start(side.device, {{-1, [] {}}}, nullptr).error, EBADF);
  EXPECT_FALSE(engine->running());
  CountedSource source;
  start({source.source()});
  source.ring();
  source.wait_for(1);
}

TEST_F(EngineTest, HearsNoSignals) {
  FileDescriptor fd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  std::atomic<int> open_signals{-1};
  start({{fd.get(), [&] {
            uint64_t value;
            EXPECT_EQ(read(fd.get(), &value, sizeof value), 8);
            sigset_t mask;
            pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            int open = 0;
            for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF, SIGIO, SIGRTMIN})
              open += sigismember(&mask, signal) == 0;
            open_signals.store(open);
          }}});
  while (open_signals.load() < 0) std::this_thread::yield();
  EXPECT_EQ(open_signals.load(), 0);
}

TEST_F(EngineTest, StoppingItEndsItsThreadAndMarksTheWord) {
  std::atomic<uint32_t> word{0};
  ASSERT_TRUE(engine->start(side.device, {}, &word).ok());
  EXPECT_NE(word.load(), 0u) << "alive before start() returns";
  EXPECT_FALSE(word.load() & FUTEX_OWNER_DIED);
  stop();
  EXPECT_TRUE(word.load() & FUTEX_OWNER_DIED);
}

TEST_F(EngineTest, AnEngineThatWasNeverStartedMayBeWokenAndStopped) {
  engine->wake();
  stop();
}

TEST_F(EngineTest, WorkFromBeforeTheStartIsFound) {
  Waiter waiter(side);
  waiter.begin();
  side.clock.advance(kPatienceWithStrangers);
  start();
  waiter.wait_for_its_end();
}

// A wake-up that is lost leaves the engine asleep with work to do, and this test waiting for ever.
TEST_F(EngineTest, NoWakeUpIsLostWhateverTheEngineIsDoing) {
  constexpr int kWaiters = 3, kRounds = 300;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < kWaiters; ++i) waiters.push_back(std::make_unique<Waiter>(side));
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < kWaiters; ++i)
    threads.emplace_back([&, i] {
      RandomPause pause(static_cast<uint32_t>(i + 1));
      for (int round = 0; round < kRounds; ++round) {
        waiters[i]->begin();
        side.clock.advance(kPatienceWithStrangers);
        waiters[i]->wait_for_its_end();
        waiters[i]->make_ready_again();
        // Meets the engine anywhere between its last turn and its sleep.
        pause(20'000);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EngineTest, NoWakeUpIsLostWhenWorkComesAsTheEngineRunsOutOfIt) {
  constexpr int kRounds = 5000;
  Waiter first(side), second(side);
  {
    const OnProcessor engines(1);  // which its thread inherits
    start();
  }
  const OnProcessor ours(0);
  RandomPause pause(1);
  for (int round = 0; round < kRounds; ++round) {
    first.begin();
    side.clock.advance(kPatienceWithStrangers);
    // The engine has just done the last it had to do, and is about to look whether it may sleep.
    while (first.qp->state() != QueuePairState::err) {
    }
    pause(2000);
    second.begin();
    side.clock.advance(kPatienceWithStrangers);
    second.wait_for_its_end();
    first.make_ready_again();
    second.make_ready_again();
  }
}

TEST_F(EngineTest, NoWakeUpIsLostWhileTheEngineStarts) {
  constexpr int kRounds = 200;
  Waiter waiter(side);
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<uint32_t> word{0};
    std::thread poster([&] {
      RandomPause pause(static_cast<uint32_t>(round + 1));
      // The engine's thread runs from here on, while start() has not returned yet.
      while (word.load() == 0) {
      }
      pause(20'000);
      waiter.begin();
      side.clock.advance(kPatienceWithStrangers);
      waiter.wait_for_its_end();
    });
    ASSERT_TRUE(engine->start(side.device, {}, &word).ok());
    poster.join();
    stop();
    waiter.make_ready_again();
    engine = std::make_unique<Engine>(side.clock);
    waker.forward_to(engine.get());
  }
}

}  // namespace
}  // namespace verbatim::engine
