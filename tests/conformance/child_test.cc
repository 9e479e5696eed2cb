// Processes that this one makes while transfers are under way in many threads: the child may do anything that POSIX
// allows it, and each transfer goes on as if there were none. VERBATIM_TEST_ALL=1: 200 children of each kind.
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "conformance/support/first_meeting.h"
#include "conformance/support/operation.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kThreads = 4;
constexpr uint32_t kLength = 300'000;  // two slices

// One thread's: writes, reads back and compares, and counts by FETCH_ADD, as long as it is let.
class Transfers {
 public:
  Transfers(Responder& peer, const RemoteMemory& there, uint32_t index)
      : there_{there.address + index * 2 * kLength, there.rkey} {
    const Address address = peer.create_queue_pair();
    EXPECT_EQ(peer.connect(index, side_.address_of(qp_.get()), {.access = kAccess}), 0);
    EXPECT_EQ(connect(qp_.get(), address, {.access = kAccess}), 0);
  }

  void begin() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested() && fault_.load() == nullptr) once();
    });
  }
  void end() { thread_ = {}; }
  uint64_t done() const { return done_; }
  // What went wrong, or null.
  const char* fault() const { return fault_; }

  const Memory& memory() const { return memory_; }

 private:
  // Neither asserts nor allocates: a child, which has none of these threads, would find their locks held,
  // AddressSanitizer's allocator's too.
  void once() {
    const uint64_t seed = done_;
    fill(memory_.bytes(0, kLength), seed);
    if (!transfer(IBV_WR_RDMA_WRITE, 0, kLength)) return;
    if (!transfer(IBV_WR_RDMA_READ, kLength, kLength)) return;
    if (first_difference(memory_.bytes(kLength, kLength), seed)) return fail("other bytes came back");
    if (!transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, kLength)) return;
    uint64_t count;
    memcpy(&count, memory_.data(), sizeof count);
    if (count != seed) return fail("the counter is wrong");
    ++done_;
  }

  bool transfer(ibv_wr_opcode opcode, uint64_t offset, uint32_t length, uint64_t there = 0) {
    ibv_sge sge{memory_.address(offset), length, region_->lkey};
    ibv_send_wr request{.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      request.wr.atomic = {.remote_addr = there_.address + there, .compare_add = 1, .rkey = there_.rkey};
    else
      request.wr.rdma = {.remote_addr = there_.address + there, .rkey = there_.rkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_.get(), &request, &bad) != 0) return fail("a request was refused"), false;
    const std::optional<ibv_wc> completion = side_.poll();
    if (!completion) return fail("a request never completes"), false;
    if (completion->status != IBV_WC_SUCCESS) return fail(ibv_wc_status_str(completion->status)), false;
    return true;
  }

  void fail(const char* what) { fault_ = what; }

  const RemoteMemory there_;
  const Side side_;
  const Memory memory_{MemoryKind::anonymous, 2 * kLength};
  const MrHandle region_ = side_.register_memory(memory_, kAccess);
  const QpHandle qp_ = side_.create_queue_pair();
  std::atomic<uint64_t> done_{0};
  std::atomic<const char*> fault_{nullptr};
  std::jthread thread_;
};

using AllTransfers = std::vector<std::unique_ptr<Transfers>>;

[[noreturn]] void execute() {
  execl("/bin/true", "true", nullptr);
  _exit(127);
}

pid_t bare_clone() { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

// Makes a child, and lets it end with status 0 when all is well. The alarm ends one that hangs.
struct Kind {
  const char* name;
  pid_t (*make)(const AllTransfers& parents);
};

template <class Life>
pid_t live(pid_t child, Life&& life) {
  if (child != 0) return child;
  alarm(60);
  life();
  _exit(0);
}

pid_t made_by_vfork() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  return child;
}

pid_t spawned() {
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  pid_t child = -1;
  return posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) == 0 ? child : -1;
}

// The child's copy of all that the parent's transfers read and write.
void scribble(const AllTransfers& parents) {
  for (const auto& transfers : parents) fill(transfers->memory().bytes(), ~uint64_t{0});
}

void close_everything() { close_range(3, ~0u, 0); }

void meet_a_peer() {
  const FirstMeeting meeting(Setting::other_process_anonymous);
  if (meeting.peer->connect(0, meeting.side.address_of(meeting.qp.get())) != 0 ||
      connect(meeting.qp.get(), meeting.far) != 0)
    _exit(2);
  meeting.expect_a_write_to_arrive();
  if (testing::Test::HasFailure()) _exit(1);
}

const Kind kKinds[] = {
    {"Ends", [](const AllTransfers&) { return live(fork(), [] {}); }},
    {"Executes", [](const AllTransfers&) { return live(fork(), execute); }},
    {"IsVforked", [](const AllTransfers&) { return made_by_vfork(); }},
    {"IsSpawned", [](const AllTransfers&) { return spawned(); }},
    {"IsCloned", [](const AllTransfers&) { return live(bare_clone(), [] {}); }},
    {"IsClonedAndExecutes", [](const AllTransfers&) { return live(bare_clone(), execute); }},
    {"IsClonedAndClosesEverything", [](const AllTransfers&) { return live(bare_clone(), close_everything); }},
    {"ClosesEverything", [](const AllTransfers&) { return live(fork(), close_everything); }},
    {"Scribbles", [](const AllTransfers& parents) { return live(fork(), [&] { scribble(parents); }); }},
    {"MeetsAPeer", [](const AllTransfers&) { return live(fork(), meet_a_peer); }},
    {"DiesOfASignal",
     [](const AllTransfers&) {
       return live(fork(), [] {
         signal(SIGTERM, [](int) { _exit(0); });
         raise(SIGTERM);
       });
     }},
};

class Children : public testing::TestWithParam<std::tuple<Setting, Kind>> {
 protected:
  Children() {
    const RemoteMemory there = peer_->register_memory(kThreads * 2 * kLength, kAccess);
    for (uint32_t i = 0; i < kThreads; ++i) transfers_.push_back(std::make_unique<Transfers>(*peer_, there, i));
  }
  // The requesters first: nothing may be on its way to a responder that goes.
  void TearDown() override { transfers_.clear(); }

  // Each thread does some more from now on.
  void expect_progress() {
    std::array<uint64_t, kThreads> before{};
    for (uint32_t i = 0; i < kThreads; ++i) before[i] = transfers_[i]->done();
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    for (uint32_t i = 0; i < kThreads; ++i) {
      while (transfers_[i]->done() < before[i] + 2 && !transfers_[i]->fault() &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      EXPECT_EQ(transfers_[i]->fault(), nullptr) << transfers_[i]->fault();
      EXPECT_GE(transfers_[i]->done(), before[i] + 2) << "no progress";
    }
  }

  const std::unique_ptr<Responder> peer_ = Responder::start(std::get<0>(GetParam()));
  AllTransfers transfers_;
};
INSTANTIATE_TEST_SUITE_P(Each, Children, testing::Combine(other_processes(), testing::ValuesIn(kKinds)),
                         [](const auto& info) { return name(std::get<0>(info.param)) + std::get<1>(info.param).name; });

TEST_P(Children, DisturbNoTransferOfTheirParents) {
  for (const auto& transfers : transfers_) transfers->begin();
  expect_progress();
  const int rounds = test_everything() ? 200 : 8;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const pid_t child = std::get<1>(GetParam()).make(transfers_);
    ASSERT_GT(child, 0) << strerror(errno);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "of the child";
  }
  expect_progress();
  for (const auto& transfers : transfers_) transfers->end();
  EXPECT_FALSE(peer_->next_event(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace verbatim::conformance
