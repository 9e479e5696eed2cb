#include "conformance/support/written_memory.h"

#include <atomic>
#include <thread>

namespace verbatim::conformance {
namespace {

constexpr uint64_t kBefore = 76;
constexpr uint64_t kOwners = 77;

}  // namespace

void WrittenMemory::set_up(Setting writers, MemoryKind memory, const Operation& operation) {
  operation_ = operation;
  writers_ = Responder::start(writers);
  writers_->register_memory(kLength);
  side_.emplace();
  memory_.emplace(memory, kLength);
  if (!operation.extended()) return;
  domain_ = side_->open_xrc_domain();
  shared_ = side_->create_shared_queue(domain_.get());
  EXPECT_EQ(ibv_get_srq_num(shared_.get(), &shared_queue_), 0);
}

void WrittenMemory::connect_writers() {
  fill(memory_->bytes(), kBefore);
  const Wiring wiring{.access = kAccess};
  for (uint32_t i = 0; i < kWriters; ++i) {
    const Address writer = writers_->create_queue_pair(operation_.type);
    queue_pairs_.push_back(domain_ ? side_->create_xrc_receiver(domain_.get())
                                   : side_->create_queue_pair(kOrdinaryCapabilities, false, operation_.type));
    ASSERT_EQ(connect(queue_pairs_.back().get(), writer, wiring), 0);
    ASSERT_EQ(writers_->connect(i, side_->address_of(queue_pairs_.back().get()), wiring, operation_.type), 0);
  }
}

void WrittenMemory::post_receives(uint32_t index, uint32_t lkey) {
  ibv_sge all{memory_->address(), kLength, lkey};
  ibv_recv_wr request{.sg_list = &all, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  for (uint32_t i = 0; i < kOrdinaryCapabilities.max_recv_wr; ++i)
    ASSERT_EQ(ibv_post_recv(queue_pairs_[index].get(), &request, &bad), 0);
}

void WrittenMemory::begin_writing(uint32_t index, uint32_t rkey) {
  writers_->begin_writing(index, {.opcode = operation_.opcode,
                                  .piece = {.length = operation_.is_atomic() ? uint32_t{sizeof(uint64_t)} : kLength},
                                  .remote_address = memory_->address(),
                                  .rkey = rkey,
                                  .target = {.shared_queue = shared_queue_}});
}

void WrittenMemory::let_them_write() {
  ASSERT_TRUE(something_arrives());
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % 500));
}

bool WrittenMemory::something_arrives() const {
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  std::vector<uint8_t> expected(64);
  fill(expected, kBefore);
  while (std::chrono::steady_clock::now() < deadline) {
    for (uint32_t i = 0; i < expected.size(); ++i) {
      const std::atomic_ref<uint8_t> byte(memory_->data()[i]);
      if (byte.load(std::memory_order_relaxed) != expected[i]) return true;
    }
    std::this_thread::yield();
  }
  return false;
}

void WrittenMemory::expect_untouched(const std::function<void()>& meanwhile) {
  fill(memory_->bytes(), kOwners);
  meanwhile();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  do ASSERT_EQ(first_difference(memory_->bytes(), kOwners), std::nullopt) << "a peer wrote after its right had gone";
  while (std::chrono::steady_clock::now() < until);
}

void WrittenMemory::end_writing() {
  writers_->end_writing();
  queue_pairs_.clear();
  while (side_->poll({})) {
  }
  while (std::optional<ibv_async_event> event = side_->next_event({})) ibv_ack_async_event(&*event);
}

std::string writing_name(Setting writers, MemoryKind memory) {
  std::string where = is_other_process(writers) ? "WritersElsewhere" : "WritersHere";
  if (writers == Setting::other_process_file) where += "FromFile";
  if (writers == Setting::other_process_unreachable) where += "Asking";
  return where + (memory == MemoryKind::file ? "File" : "Anonymous");
}

}  // namespace verbatim::conformance
