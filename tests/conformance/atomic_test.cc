// The data checker of atomics: the eight bytes there change as asked, what they were comes back, nothing beside
// changes.
#include <cstring>

#include "conformance/support/pair.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kNearSeed = 2;
constexpr uint64_t kFarSeed = 1;
constexpr uint64_t kHere = 1024;
constexpr uint64_t kThere = 2048;
constexpr unsigned kAtomicAccess = kEveryAccess | IBV_ACCESS_REMOTE_ATOMIC;

using Parameters = std::tuple<Setting, ibv_qp_type>;

// IBTA volume 1, 9.2: the services that have atomics.
auto every_parameter() { return testing::Combine(every_setting(), testing::Values(IBV_QPT_RC, IBV_QPT_XRC_SEND)); }

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return name(std::get<0>(info.param)) + std::string(transport_name(std::get<1>(info.param)));
}

class Atomic : public PairTest, public testing::WithParamInterface<Parameters> {
 protected:
  Atomic() {
    set_up(std::get<0>(GetParam()), IBV_WR_ATOMIC_FETCH_AND_ADD, kLength, std::get<1>(GetParam()));
    remote_ = far_->register_memory(kLength, kAtomicAccess);
    connect({.access = kAtomicAccess});
    far_->fill(0, kLength, kFarSeed);
    fill(memory_->bytes(0, kLength), kNearSeed);
  }

  Request atomic(uint64_t id, ibv_wr_opcode opcode, std::vector<ibv_sge> sges, uint64_t compare_add,
                 uint64_t swap = 0) {
    return {.id = id,
            .opcode = opcode,
            .sges = std::move(sges),
            .remote_address = remote_.address + kThere,
            .rkey = remote_.rkey,
            .compare_add = compare_add,
            .swap = swap,
            .shared_queue = far_address_.shared_queue};
  }

  // In the order of this machine's bytes, as the responder's processor sees it.
  uint64_t value_there() {
    uint8_t bytes[8];
    for (uint64_t i = 0; i < 8; ++i) bytes[i] = far_->byte_at(kThere + i);
    uint64_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint64_t value_here() const {
    uint64_t value;
    std::memcpy(&value, memory_->data() + kHere, sizeof value);
    return value;
  }

  // That the request succeeds, leaves `after` there and brings here what was there.
  void expect_change(ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap, uint64_t after) {
    const uint64_t before = value_there();
    EXPECT_EQ(post(atomic(++last_id_, opcode, {local(kHere, 8)}, compare_add, swap)), kAllPosted);
    ASSERT_EQ(next(), succeeded(last_id_));
    EXPECT_EQ(value_there(), after);
    EXPECT_EQ(value_here(), before);
    EXPECT_EQ(far_->first_difference(0, kThere, kFarSeed, 0), std::nullopt) << "before the eight bytes";
    EXPECT_EQ(far_->first_difference(kThere + 8, kLength - kThere - 8, kFarSeed, kThere + 8), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(0, kHere), kNearSeed), std::nullopt);
    EXPECT_EQ(first_difference(memory_->bytes(kHere + 8, kLength - kHere - 8), kNearSeed, kHere + 8), std::nullopt);
  }

  uint64_t last_id_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Each, Atomic, every_parameter(), parameters_name);

TEST_P(Atomic, FetchAndAddWrapsAround) {
  for (const uint64_t added : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63})
    expect_change(IBV_WR_ATOMIC_FETCH_AND_ADD, added, 0, value_there() + added);
}

TEST_P(Atomic, CompareAndSwapOfAnEqualValueSwaps) {
  for (const uint64_t swapped : {uint64_t{7}, uint64_t{0}, ~uint64_t{0}})
    expect_change(IBV_WR_ATOMIC_CMP_AND_SWP, value_there(), swapped, swapped);
}

TEST_P(Atomic, CompareAndSwapOfAnotherValueOnlyFetches) {
  expect_change(IBV_WR_ATOMIC_CMP_AND_SWP, value_there() + 1, 7, value_there());
  expect_change(IBV_WR_ATOMIC_CMP_AND_SWP, value_there() ^ uint64_t{1} << 63, 7, value_there());
}

// Each ends the queue pair.
class AtomicLength : public Atomic {
 protected:
  void expect_refused(ibv_wr_opcode opcode, std::vector<ibv_sge> sges) {
    EXPECT_EQ(post(atomic(1, opcode, std::move(sges), 1, 1)), kAllPosted);
    EXPECT_EQ(next(), failed(1, IBV_WC_LOC_LEN_ERR));
    EXPECT_EQ(far_->first_difference(0, kLength, kFarSeed, 0), std::nullopt);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, AtomicLength, every_parameter(), parameters_name);

// The word there may have changed by then; the other side is none the worse.
TEST_P(Atomic, WhoseSinkIsBadIsTheRequestersError) {
  ibv_sge sink = local(kHere, 8);
  sink.lkey ^= 0x5a5a00;
  EXPECT_EQ(post(atomic(1, IBV_WR_ATOMIC_FETCH_AND_ADD, {sink}, 1)), kAllPosted);
  EXPECT_EQ(next(), failed(1, IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(first_difference(memory_->bytes(0, kLength), kNearSeed), std::nullopt);
  EXPECT_EQ(far_->state_of(), IBV_QPS_RTS);
}

TEST_P(AtomicLength, NoBytes) { expect_refused(IBV_WR_ATOMIC_FETCH_AND_ADD, {}); }
TEST_P(AtomicLength, FourBytes) { expect_refused(IBV_WR_ATOMIC_CMP_AND_SWP, {local(kHere, 4)}); }
TEST_P(AtomicLength, EightBytesAndOne) {
  expect_refused(IBV_WR_ATOMIC_FETCH_AND_ADD, {local(kHere, 8), local(kHere + 8, 1)});
}
TEST_P(AtomicLength, TwoPiecesOfFourBytesAreEight) {
  EXPECT_EQ(post(atomic(1, IBV_WR_ATOMIC_FETCH_AND_ADD, {local(kHere, 4), local(kHere + 64, 4)}, 1)), kAllPosted);
  EXPECT_EQ(next(), succeeded(1));
  uint64_t fetched = 0;
  std::memcpy(&fetched, memory_->data() + kHere, 4);
  std::memcpy(reinterpret_cast<uint8_t*>(&fetched) + 4, memory_->data() + kHere + 64, 4);
  EXPECT_EQ(fetched + 1, value_there());
}

}  // namespace
}  // namespace verbatim::conformance
