// More READs and atomics posted at once than max_rd_atomic lets be under way: the rest waits its turn.
#include <cstring>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr unsigned kAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint64_t kRequests = 16;
constexpr uint64_t kCounter = 8192;  // behind what is read

class ReadDepth : public PairTest, public testing::WithParamInterface<std::tuple<Setting, uint8_t>> {
 protected:
  ReadDepth() {
    set_up(std::get<0>(GetParam()), IBV_WR_RDMA_READ);
    remote_ = far_->register_memory(kLength, kAccess);
    const uint8_t depth = std::get<1>(GetParam());
    connect({.access = kAccess, .max_rd_atomic = depth, .max_dest_rd_atomic = depth});
    far_->fill(0, kCounter, 1);
    fill(memory_->bytes(), 2);
  }
  // Adds 1 to the counter, whose old value comes to `offset`.
  Request count(uint64_t id, uint64_t offset) const {
    return {.id = id,
            .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
            .sges = {local(offset, 8)},
            .remote_address = remote_.address + kCounter,
            .rkey = remote_.rkey,
            .compare_add = 1};
  }
  uint64_t word_at(uint64_t offset) const {
    uint64_t word;
    std::memcpy(&word, memory_->data() + offset, sizeof word);
    return word;
  }
};
INSTANTIATE_TEST_SUITE_P(Each, ReadDepth, testing::Combine(every_setting(), testing::Values(1, 2, 16)),
                         [](const auto& info) {
                           return name(std::get<0>(info.param)) + "Of" + std::to_string(std::get<1>(info.param));
                         });

TEST_P(ReadDepth, ReadsBeyondItAreAllDoneInOrder) {
  constexpr uint32_t kEach = 500;
  std::vector<Request> reads;
  for (uint64_t id = 0; id < kRequests; ++id) reads.push_back(request(id, id * kEach, kEach));
  EXPECT_EQ(post(reads), kAllPosted);
  for (uint64_t id = 0; id < kRequests; ++id) EXPECT_EQ(next(), succeeded(id));
  EXPECT_EQ(first_difference(memory_->bytes(0, kRequests * kEach), 1), std::nullopt);
  EXPECT_EQ(first_difference(memory_->bytes(kRequests * kEach, 64), 2, kRequests * kEach), std::nullopt);
}

TEST_P(ReadDepth, AtomicsBetweenReadsAndWritesAreDoneOnceAndInOrder) {
  std::vector<Request> mixed;
  for (uint64_t i = 0; i < kRequests; ++i) {
    mixed.push_back(count(3 * i, kCounter + 8 * i));
    // What the atomic before it left there.
    Request read = request(3 * i + 1, 0, 8);
    read.sges = {local(kCounter + 1024 + 8 * i, 8)};
    read.remote_address = remote_.address + kCounter;
    mixed.push_back(read);
    Request write = request(3 * i + 2, 64 * i, 64);
    write.opcode = IBV_WR_RDMA_WRITE;
    mixed.push_back(write);
  }
  EXPECT_EQ(post(mixed), kAllPosted);
  for (uint64_t id = 0; id < mixed.size(); ++id) EXPECT_EQ(next(), succeeded(id));
  for (uint64_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(word_at(kCounter + 8 * i), i);
    EXPECT_EQ(word_at(kCounter + 1024 + 8 * i), i + 1);
  }
  EXPECT_EQ(far_->first_difference(0, 64 * kRequests, 2, 0), std::nullopt);
}

}  // namespace
}  // namespace verbatim::conformance
