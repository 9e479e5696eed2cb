#include "conformance/support/written_memory.h"

#include <atomic>
#include <thread>

namespace verbatim::conformance {
namespace {

constexpr uint64_t kBefore = 76;
constexpr uint64_t kOwners = 77;

}  // namespace

void WrittenMemory::set_up(Setting writers, MemoryKind memory) {
  writers_ = Responder::start(writers);
  writers_->register_memory(kLength);
  side_.emplace();
  memory_.emplace(memory, kLength);
}

void WrittenMemory::connect_writers() {
  fill(memory_->bytes(), kBefore);
  for (uint32_t i = 0; i < kWriters; ++i) {
    const Address writer = writers_->create_queue_pair();
    queue_pairs_.push_back(side_->create_queue_pair());
    ASSERT_EQ(connect(queue_pairs_.back().get(), writer), 0);
    ASSERT_EQ(writers_->connect(i, side_->address_of(queue_pairs_.back().get())), 0);
  }
}

void WrittenMemory::begin_writing(uint32_t index, uint32_t rkey) {
  writers_->begin_writing(index, {memory_->address(), rkey}, kLength);
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

void WrittenMemory::expect_untouched() {
  fill(memory_->bytes(), kOwners);
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
  if (writers == Setting::other_process_unreachable) where += "Asking";
  return where + (memory == MemoryKind::file ? "File" : "Anonymous");
}

}  // namespace verbatim::conformance
